"""The figures of GPU_NOTES.md, from the JSON in benchmarks/results: none is written by hand.

    python benchmarks/gpu_notes.py              prints the tables
    python benchmarks/gpu_notes.py --write      puts them in GPU_NOTES.md; what its last column says of a kernel stays
"""
import argparse
import json
import os
import re

import gpu_floors

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN, END = "<!-- figures: python benchmarks/gpu_notes.py --write -->", "<!-- end of figures -->"
_UNKNOWN = "not looked at yet"
# A kernel's line is from the first of these modes that has it.
_MODES = ("lazyadam", "sgd", "forward", "forward training")


def load(folder, name):
    """A report, or None."""
    try:
        with open(os.path.join(folder, name + ".json")) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def table(head, rows):
    """Lines of a table."""
    return ["| {} |".format(" | ".join(cells)) for cells in [head, ["---"] * len(head)] + rows] + [""]


def number(value, form="{:.3f}"):
    return "" if value is None else form.format(value)


def target(case, what):
    wanted = case.get("targets", {}).get(what)
    return "{} {}".format(wanted["ms"], "reached" if wanted["reached"] else "**not reached**") if wanted else ""


def best(case):
    """What was recorded of our side by a clock that sees all kernels."""
    return gpu_floors.judged(case["kernels"].get("sok1x", {}))


def about(report):
    """Where and when, in a line."""
    gpu = report.get("gpu") or report["groups"][0]["gpu"]
    commit, _, changed = (report["commit"] or "unknown").partition(" ")
    return "{}, driver {}, commit {}, {}.".format(
        gpu.get("name"), gpu.get("driver_version", "none"), " ".join([commit[:12], changed]).strip(), report["date"])


def cases(report):
    """The cases of gpu_embedding.json."""
    rows = []
    for case in report["cases"]:
        whole, floor = case["whole"], case.get("floor ms")
        rows.append([
            "{} {}".format(case["layout"], case["mode"]), number(floor),
            number(best(case).get("kernels", {}).get("median")),
            number(case.get("kernels / floor"), "{:.2f}"), target(case, "kernels"),
            number(whole.get("sok1x", {}).get("median")), target(case, "whole"),
            number(whole.get("stock", {}).get("median")),
            number(case.get("deterministic", {}).get("whole", {}).get("median"))])
    clocks = sorted({best(case)["clock"] for case in report["cases"] if best(case)})
    return ["{} Milliseconds; kernels by {}; copy bandwidth {:.2f} TB/s.".format(
        about(report), " and ".join(clocks), report["copy"]["bytes/s"] / 1e12), ""] + table(
            ["case", "floor", "kernels", "times floor", "to reach", "session.run", "to reach", "stock TensorFlow",
             "deterministic"], rows)


def kernels(reports, said):
    """A line for each kernel; `said`: kernel -> what limits it."""
    found, layouts = {}, ("dense", "sparse")
    embedding, hashes = reports["gpu_embedding"], reports["gpu_hash"]
    for mode in _MODES:
        for case in embedding["cases"] if embedding else []:
            for row in best(case).get("by kernel", []) if case["mode"] == mode else []:
                found.setdefault(row["kernel"], {}).setdefault(case["layout"], row)
    for case in hashes["cases"] if hashes else []:
        for row in case["by kernel"]:
            found.setdefault(row["kernel"], {}).setdefault("hash", row)
    rows = []
    for name, places in sorted(found.items(), key=lambda item: -max(row["ms"] for row in item[1].values())):
        rows.append(["`{}`".format(name)] + [_figures(places.get(place)) for place in layouts + ("hash",)] +
                    [said.get(name, _UNKNOWN)])
    return table(["kernel", "dense, us", "sparse, us", "hash table, us", "what limits it"], rows)


def _figures(row):
    """Time, floor, and how many times that it takes."""
    if row is None:
        return ""
    launches = " in {} launches".format(row["launches"]) if row["launches"] > 1 else ""
    if "floor ms" not in row:
        return "{:.1f}{}".format(row["ms"] * 1e3, launches)
    text = "{:.1f}{}, floor {:.1f}: {:.2f}".format(
        row["ms"] * 1e3, launches, row["floor ms"] * 1e3, row["times floor"])
    return "**{}**".format(text) if row["times floor"] > 1.5 else text


def hashes(report):
    """The cases of gpu_hash.json."""
    rows = []
    for case in report["cases"]:
        wanted, by = case.get("target"), case["kernels"].get("trace") or case["kernels"]["events"]
        rows.append([case["operation"], str(case["load"]), str(case["new keys"]), number(by["10^9 keys/s"], "{:.2f}"),
                     number(case.get("stream", {}).get("10^9 keys/s"), "{:.2f}"),
                     number(case["call"]["10^9 keys/s"], "{:.2f}"),
                     "{} {}".format(wanted["10^9 keys/s"], "reached" if wanted["reached"] else "**not reached**")
                     if wanted else ""])
    return ["{} {} slots, {} keys a call; 10^9 keys a second.".format(
        about(report), report["options"]["capacity"], report["options"]["keys"]), ""] + table(
            ["operation", "load", "new keys", "kernels", "calls behind each other", "whole call", "to reach"], rows)


def optimizers(report):
    """The cases of optimizers_gpu.json."""
    rows = []
    for case in report["cases"]:
        clocks, wanted = case["kernels"], case.get("target")
        best_clock = gpu_floors.judged(clocks)
        rows.append([
            case["optimizer"], "{} {}".format(case["layout"], case["mode"]), number(case["floor ms"]),
            number(best_clock.get("fused", {}).get("median")), number(case.get("fused / floor"), "{:.2f}"),
            "{} {}".format(wanted["fused / floor"], "reached" if wanted["reached"] else "**not reached**")
            if wanted else "", number(best_clock.get("all", {}).get("median")),
            number(case["whole"]["sok1x"]["median"]), number(case["whole"]["stock"]["median"])])
    return ["{} Milliseconds; an update is of gradients with repeated rows, a step has the lookup too.".format(
        about(report)), ""] + table(
            ["optimizer", "case", "floor", "its own kernels", "times floor", "to reach", "all kernels", "session.run",
             "stock TensorFlow"], rows)


def scaling(report):
    """The jobs of gpu_scaling.json."""
    rows = []
    for group in report["groups"]:
        for case in group["cases"]:
            best = case["recorded"].get("trace") or case["recorded"]["events"]
            spent, sent = best["exchange"], case.get("bytes", {})
            about_it = group["about"]
            rows.append([str(group["ranks"]), about_it.get("GPU communicator", about_it.get("communicator")),
                         "{} {}".format(case["layout"], case["mode"]), number(case["ms"]["median"]),
                         "{:,}".format(case["samples/s"]), number(case.get("efficiency"), "{:.0%}"),
                         number(min(spent)), number(max(best["idle"]) if "idle" in best else None, "{:.0%}"),
                         number(sent.get("sok1x", 0) / 1e6, "{:.1f}"),
                         number(sent.get("sok1x without distinct keys", 0) / 1e6, "{:.1f}")])
    return [about(report), ""] + table(
        ["ranks", "exchange by", "case", "session.run, ms", "samples/s", "efficiency", "exchange, ms",
         "GPU idle", "MB sent a rank", "MB if every key travelled"], rows)


def figures(folder, said):
    """All tables, as lines."""
    names = ("gpu_embedding", "optimizers_gpu", "gpu_hash", "gpu_scaling")
    reports = {name: load(folder, name) for name in names}
    lines = []
    titles = ("Lookups and steps", "Optimizers", "Hash table", "Weak scaling")
    for title, name, make in zip(titles, names, (cases, optimizers, hashes, scaling)):
        lines += ["## " + title, ""] + (make(reports[name]) if reports[name] else ["Not measured yet.", ""])
    lines += ["## Kernels", "", "Of a step, or of the case that has the kernel; bold: above 1.5 times its floor.", ""]
    return lines + kernels(reports, said)


def limits(text):
    """What the notes say limits each kernel."""
    found = re.findall(r"^\| `(\w+(?: \w+)?)` \|.*\| ([^|]*) \|$", text, re.MULTILINE)
    return {name: said for name, said in found if said != _UNKNOWN}


def main():
    """Prints, or writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--results", default=os.path.join(HERE, "results"), help="folder of the JSON files")
    parser.add_argument("--notes", default=os.path.join(HERE, "GPU_NOTES.md"))
    options = parser.parse_args()
    with open(options.notes) as file:
        text = file.read()
    lines = figures(options.results, limits(text))
    if not options.write:
        print("\n".join(lines))
        return
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    with open(options.notes, "w") as file:
        file.write("\n".join([before + BEGIN, ""] + lines + [END + after]))


if __name__ == "__main__":
    main()
