"""Tables of figures on our pages are those of the files that they name."""
import json
import os

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAYOUTS = {"one key a slot": "dense", "1 to 9 keys a slot": "sparse"}


def load(name):
    with open(os.path.join(ROOT, "benchmarks", "results", name + ".json")) as file:
        return json.load(file)


def lines(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in file if line[:1] == "|"]


def cells(page, label):
    """Of the one line of a page's tables that begins so."""
    line, = [line for line in lines(page) if line[0] == label]
    return line[1:]


def agree(shown, figures):
    """Whether words, as "0.26, 1.2", are these numbers, rounded to as many digits as they have."""
    words = shown.split(", ")
    assert len(words) == len(figures), (shown, figures)
    for word, figure in zip(words, figures):
        digits = len(word.partition(".")[2])
        assert abs(float(word) - figure) <= 0.51 * 10.0 ** -digits, (shown, figures)


def embedding(name, label, mode, side):
    case, = [case for case in load(name)["cases"] if (case["layout"], case["mode"]) == (LAYOUTS[label], mode)]
    figures = case["kernels"]["sok1x"]["trace"]["kernels"] if side == "kernels" else case["whole"][side]
    return figures["median"]


@pytest.mark.parametrize("mode, words", [
    ("forward", {"dense": ", forward", "sparse": ", summed, forward"}), ("sgd", ", step with SGD"),
    ("lazyadam", ", step with LazyAdam")])
@pytest.mark.parametrize("label", sorted(LAYOUTS))
def test_readme(label, mode, words):
    words = words if isinstance(words, str) else words[LAYOUTS[label]]
    found = [line[1:] for line in lines("README.md") if line[0] == label + words]
    on_cpus, on_gpus = found
    for shown, side in zip(on_gpus, ("stock", "sok1x", "kernels")):
        agree(shown, [embedding("gpu_embedding", label, mode, side)])
    for shown, name, side in zip(on_cpus, ("embedding_cpu",) * 2 + ("embedding_cpu_2",) * 2,
                                 ("stock", "sok1x", "horovod", "sok1x")):
        case, = [case for case in load(name)["comparisons"][0]["cases"]
                 if (case["layout"], case["mode"]) == (LAYOUTS[label], mode)]
        assert bool(shown) == (mode != "forward" or name == "embedding_cpu"), shown
        if shown:
            agree(shown, [case["ms"][side]["median"]])


def many_tables(name, tables):
    case, = [case for case in load(name)["cases"] if (case["ranks"], case["layout"], case["tables"]) == (
        1, "uniform", tables)]
    return [case["sides"]["sok1x"]["ms"][mode]["median"] for mode in ("forward", "step")]


def case_of(name, **wanted):
    case, = [case for case in load(name)["cases"] if all(case[key] == value for key, value in wanted.items())]
    return case


def dcnv2(name):
    sides = case_of(name, **{"ranks": 1, "batch in total": 512})["sides"]
    return [sides[side]["ms"]["median"] for side in ("group", "columns")]


def dlrm(name):
    group, = [group for group in load(name)["groups"] if group["ranks"] == 1]
    return [group["modes"]["step"]["sok1x"]["ms"]["median"]]


def updates(name, optimizer, layouts):
    return [case_of(name, optimizer=optimizer, layout=layout, mode="update")["whole"]["sok1x"]["median"]
            for layout in layouts]


ON_BOTH = {
    "26 tables with 8192 keys each, forward, step": (many_tables, "many_tables_gpu_tf2", "many_tables_gpu_1", 26),
    "100 tables": (many_tables, "many_tables_gpu_tf2", "many_tables_gpu_1", 100),
    "DLRM, 26 fields, a step": (dlrm, "dlrm_gpu_tf2", "dlrm_gpu_1"),
    "DCNv2 on 512 samples, by group, by columns": (dcnv2, "dcnv2_gpu_tf2", "dcnv2_gpu_1"),
    "growing from 2^22 to 2^23 rows with slots": (
        lambda name: [case_of(name, case="growth")["ms"]["median"]], "dynamic_gpu_tf2", "dynamic_gpu"),
    "a step in which a tenth of the keys are new and as many leave": (
        lambda name: [case_of(name, case="eviction")["ms"]["evicting"]["mean"]], "dynamic_gpu_tf2", "dynamic_gpu"),
    "2^24 rows in host memory, a tenth cached: forward, step with LazyAdam": (
        lambda name: [case_of(name, case="hybrid")["ms"]["hybrid"][mode]["median"] for mode in ("forward", "step")],
        "dynamic_hybrid_gpu_tf2", "dynamic_hybrid_gpu"),
    "`LazyAdamOptimizer`, one key a slot, 1 to 9 keys a slot: an update": (
        updates, "optimizers_gpu_tf2", "optimizers_gpu_1", "tf.keras LazyAdamOptimizer", ("dense", "sparse")),
    "Adam for a table, which moves all 2^22 rows: an update": (
        updates, "optimizers_gpu_tf2", "optimizers_gpu_1", "optimizers.Adam", ("dense",)),
    "10^7 rows of 64 floats: saved, restored, seconds": (
        lambda name: [load(name)["seconds of"][what]["median"] for what in ("save", "restore")],
        "checkpoint_gpu_tf2", "checkpoint_gpu_1")}


@pytest.mark.parametrize("label", sorted(ON_BOTH))
def test_tensorflow_2_on_gpus(label):
    read, second, first = ON_BOTH[label][:3]
    for shown, name in zip(cells("docs/gpus.md", label), (second, first)):
        agree(shown, read(name, *ON_BOTH[label][3:]))


@pytest.mark.parametrize("label", sorted(LAYOUTS))
def test_lookups_and_steps_with_tensorflow_2(label):
    shown = cells("docs/gpus.md", label + ", forward, step with SGD, with LazyAdam")
    for words, name in zip(shown, ("gpu_embedding_tf2", "gpu_embedding")):
        agree(words, [embedding(name, label, mode, "sok1x") for mode in ("forward", "sgd", "lazyadam")])


def scaling(name, layout):
    group, = [group for group in load(name)["groups"] if len(group["GPU of each rank"]) == 2]
    found = {case["mode"]: case["ms"]["median"] for case in group["cases"] if case["layout"] == layout}
    return [found[mode] for mode in ("forward", "sgd", "lazyadam")]


@pytest.mark.parametrize("label", sorted(LAYOUTS))
def test_two_gpus(label):
    shown = cells("docs/gpus.md", "on two GPUs, " + label + ", the same")
    for words, name in zip(shown, ("gpu_scaling_tf2", "gpu_scaling_2")):
        agree(words, scaling(name, LAYOUTS[label]))


def test_both_tensorflows_in_turn_on_the_host():
    ratios = {line["figure"]: line["ratio"] for one in load("two_tensorflows_cpu")["benchmarks"]
              for line in one["compared"]}
    inserting = ratios.pop("cases eviction ms inserting mean")
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        page = " ".join(file.read().split())
    assert "On TensorFlow 2.15 ours take {:.2f} to {:.2f} times as long, and steps that insert keys {:.2f}".format(
        min(ratios.values()), max(ratios.values()), inserting) in page
