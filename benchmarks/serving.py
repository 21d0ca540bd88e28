"""A DLRM served by stock TensorFlow: size, export, load and latency of its SavedModel.

    python benchmarks/serving.py          on the CPU; prints a table and writes benchmarks/results/serving_cpu.json
    python benchmarks/serving.py --tiny   tries the code

The model of benchmarks/dlrm.py: 13 dense features, and 26 fields of one key each in one hash table, whose keys are any
int64; dense variables, rows and requests are random. It is trained on nothing: each key is looked up once, and saved by
sok.CheckpointManager. Exported, it is loaded and timed in a process of its own which imports nothing of sok1x:

table     keys in TensorFlow's hash table, as by default
table16   the same with float16 rows
search    keys that are searched for
rows      the floor: keys that are row numbers, of a table without an index (use_hashtable=False)
sok1x     the training session's own evaluation, in another process, for comparison

export s  export_saved_model, all of it; load s tf.saved_model.load; memory MB what the process has grown by then. ms
are the median and the least of a request with B samples, from session.run to its return; forms take turns, round by
round. 'times the floor' compares the least ones, which others on the machine disturb least. 'unseen' requests have a
tenth of keys without a row, which read random first rows. All forms must give what sok1x gives (float16 within its
rounding), or the benchmark fails.
"""
import argparse
import tempfile

import gpu_report
import jobs

_TINY = {"vocabulary": 2000, "bottom": [16, 8], "top": [16, 1], "batches": [1, 8], "rounds": 3, "requests": 2}
FORMS = {"table": {}, "table16": {"storage": "float16"}, "search": {"index": "search"}, "rows": {}}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=1 << 21, help="keys of all fields")
    parser.add_argument("--dense", type=int, default=13, help="dense features")
    parser.add_argument("--slots", type=int, default=26, help="fields")
    parser.add_argument("--bottom", type=int, nargs="+", default=[512, 256, 64], help="units; the last is D")
    parser.add_argument("--top", type=int, nargs="+", default=[512, 256, 1], help="units")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32, 512], help="samples of a request")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=10, help="of each form in a round")
    parser.add_argument("--threads", type=int, default=0, help="of TensorFlow's ops; 0: as many as there are CPUs")
    gpu_report.add_arguments(parser, "serving_cpu")
    parser.set_defaults(device="cpu")
    return gpu_report.parse(parser, _TINY)


def measure(options, report):
    """Trains, exports, loads and times; adds its figures to the report."""
    with tempfile.TemporaryDirectory() as folder:
        given = dict(vars(options), folder=folder, forms=FORMS)
        environment = {"CUDA_VISIBLE_DEVICES": ""}
        trained = jobs.start("serving_export.py", given, environment=environment)
        served = jobs.start("serving_load.py", given, environment=environment)
        report["forms"] = {}
        for form in FORMS:
            report["forms"][form] = dict(trained["forms"][form], **served["forms"][form])
        report["sok1x"] = {case: gpu_report.summary(times) for case, times in trained["sok1x"].items()}
        report["graph nodes"] = served["nodes"]
        report["sizes"] = trained["sizes"]
    for form, found in report["forms"].items():
        for case, times in found["ms"].items():
            found["ms"][case] = gpu_report.summary(times)
        off, most = found["differs by"], 0.02 if form == "table16" else 0.0
        if form != "rows" and off > most:
            raise AssertionError("{} differs from sok1x's evaluation by {}, expected at most {}".format(
                form, off, most))
    for form, found in report["forms"].items():
        found["times the floor"] = {
            case: gpu_report.figure(found["ms"][case]["least"] / report["forms"]["rows"]["ms"][case]["least"])
            for case in found["ms"] if case in report["forms"]["rows"]["ms"]}


def show(report):
    """Prints one line for each form."""
    cases = list(report["forms"]["table"]["ms"])
    print("{:8}{:>8}{:>9}{:>7}{:>10}".format("", "MB", "export s", "load s", "memory MB")
          + "".join("{:>20}".format(case + " ms") for case in cases))
    for form, found in report["forms"].items():
        print("{:8}{:>8.1f}{:>9.2f}{:>7.2f}{:>10.0f}".format(
            form, found["bytes"] / 1e6, found["export s"], found["load s"], found["memory MB"])
            + "".join(_cell(found["ms"].get(case)) for case in cases))
    print("{:42}".format("sok1x") + "".join(_cell(report["sok1x"][case]) for case in cases))


def _cell(times):
    return " " * 20 if times is None else "{:>12.3f} {:>7.3f}".format(times["median"], times["least"])


def main():
    """Measures, prints, writes."""
    options = parse()
    report = gpu_report.Report(options)
    report.phase("serving", measure, options, report)
    if not report["failed"]:
        report.phase("show", show, report)
    report.end()


if __name__ == "__main__":
    main()
