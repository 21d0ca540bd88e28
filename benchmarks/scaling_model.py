"""Step times on several hosts, on paper: docs/scaling.md, made from measured figures and stated assumptions.

    python benchmarks/scaling_model.py            prints the tables
    python benchmarks/scaling_model.py --write    puts them in docs/scaling.md

Measured: steps and exchanges on 2 and 4 GPUs (results/gpu_scaling.json), kernels (results/gpu_embedding.json), the
order of exchanges (results/coordinator.json). All else is in `ASSUMED`.
"""
import argparse
import json
import os
import re

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(os.path.dirname(HERE), "docs", "scaling.md")
MARKS = "<!-- {}: python benchmarks/scaling_model.py --write -->", "<!-- end of {} -->"

WIDTH = 3  # launch/environment.py: tree_width
GPUS, HOSTS = 8, (1, 2, 8, 32)
KEYS, DIM, ROWS = 8192 * 26, 128, 2 ** 22  # of a rank's batch (one key a slot), D, rows a rank (V)
KEYS_OF = {"dense": KEYS, "sparse": 5 * KEYS}
ASSUMED = {
    "network": 400e9 / 8,        # bytes a second of one adapter, each way
    "of the network": 0.8,       # what exchanges get of that
    "a message": 1e-6,           # seconds for each other rank in an exchange
    "a turn": 50e-6,             # seconds of the host for one more exchange in a step, beside its data
}
LAYOUTS = {"dense": "one key a slot", "sparse": "1 to 9 keys a slot"}


def load(name):
    with open(os.path.join(HERE, "results", name + ".json")) as file:
        return json.load(file)


def distinct(keys, rows):
    """How many of `rows` are hit by so many draws of floor(rows * u^3), on average."""
    first = np.arange(0, 1000.0)
    edges = np.concatenate([first, np.exp(np.linspace(np.log(1000.0), np.log(rows), 40000))])
    share = np.diff(np.cbrt(edges / rows))  # of the draws, in each stretch
    width = np.diff(edges)
    return float(np.sum(width * -np.expm1(-keys * share / width)))


def measured(layout):
    """What steps of a layout take: seconds beside the exchanges, on four ranks and on two, bytes a second over NVLink.

    A rank that comes early waits in an exchange for the others: the one with the least shows what it takes.
    """
    two, four = [next(case for group in load("gpu_scaling")["groups"] if group["ranks"] == ranks
                      for case in group["cases"] if (case["layout"], case["mode"]) == (layout, "lazyadam"))
                 for ranks in (2, 4)]
    least = [min(case["recorded"]["trace"]["exchange"]) for case in (two, four)]
    return {"rest": 1e-3 * (four["ms"]["median"] - least[1]), "rest of two": 1e-3 * (two["ms"]["median"] - least[0]),
            "nvlink": 1e3 * four["bytes"]["sok1x"] / least[1],
            "exchanges": int(four["recorded"]["trace"]["exchanges"][0])}


def kernels(layout):
    """Seconds of the kernels that a host would run besides for all of a batch: distinct keys, rows, sums.

    The last of a gradient's sums is not among them: it is made in one pass with the optimizer's step.
    """
    case = next(case for case in load("gpu_embedding")["cases"]
                if (case["layout"], case["mode"]) == (layout, "lazyadam"))
    found = {one["kernel"]: one["ms"] for one in case["kernels"]["sok1x"]["trace"]["by kernel"]}
    names = [name for name in found if re.match("(group_)?(plain_)?(unique|gather|combine|sum_|running_sum)", name)]
    return 1e-3 * sum(found[name] for name in names)


def step(layout, hosts, adapters, rows):
    """A step's figures. adapters: of a host. rows: of the table, in all."""
    facts, ranks = measured(layout), hosts * GPUS
    keys = KEYS_OF[layout]
    each = distinct(keys, rows)
    volume = each * (8 + 2 * 4 * DIM)  # keys there; rows back; gradients there
    net = ASSUMED["network"] * ASSUMED["of the network"] * adapters
    local, away = (GPUS - 1) / ranks, (ranks - GPUS) / ranks
    near, far = volume * local / facts["nvlink"], GPUS * volume * away / net
    alike = distinct(GPUS * keys, rows) / (GPUS * each)
    flat = facts["rest"] + max(near, far) + facts["exchanges"] * (ranks - 1) * ASSUMED["a message"]
    found = {"bytes": volume, "alike": alike, "near": near, "far": far, "flat": flat, "two": None}
    if hosts > 1:
        gather = volume * away * (GPUS - 1) / GPUS / facts["nvlink"]
        besides = kernels(layout) * away * each / distinct(keys, ROWS)
        messages = facts["exchanges"] * (2 * (GPUS - 1) + hosts - 1) * ASSUMED["a message"]
        turns = facts["exchanges"] * ASSUMED["a turn"]
        found.update(besides=besides + gather + turns, two=facts["rest"] + gather + max(near, alike * far) + besides +
                     messages + turns)
    return found


def table(head, rows):
    return ["| {} |".format(" | ".join(cells)) for cells in [head, ["---"] * len(head)] + rows]


def steps():
    """The table of step times."""
    rows = []
    for layout in LAYOUTS:
        for name, of in (("{:.1f} M a GPU".format(ROWS / 1e6), None), ("{:.1f} M in all".format(ROWS / 1e6), ROWS)):
            for hosts in HOSTS:
                total = of or ROWS * hosts * GPUS
                one, many = (step(layout, hosts, adapters, total) for adapters in (1, GPUS))
                cells = [LAYOUTS[layout], name, str(hosts), "{:.0f}".format(one["bytes"] / 1e6)]
                cells += ["" if hosts == 1 else "{:.2f}".format(one["alike"])]
                for found in (one, many):
                    form = "**{:.2f}**" if (found["two"] or np.inf) < found["flat"] else "{:.2f}"
                    cells += ["{:.2f}".format(1e3 * found["flat"])]
                    cells += ["" if found["two"] is None else form.format(1e3 * found["two"])]
                rows.append(cells)
    return table(["keys", "rows", "hosts", "MB of a GPU", "left per host", "1 adapter: flat, ms", "by hosts, ms",
                  "8 adapters: flat, ms", "by hosts, ms"], rows)


def facts():
    """The table of measured figures and assumptions."""
    rows = []
    for layout, name in LAYOUTS.items():
        found = measured(layout)
        rows += [["{}: a step beside its exchanges".format(name), "{:.2f} ms on 4 GPUs, {:.2f} on 2".format(
                      1e3 * found["rest"], 1e3 * found["rest of two"]), "gpu_scaling.json"],
                 ["{}: an exchange over NVLink, each way, a GPU".format(name), "{:.0f} GB/s".format(
                     found["nvlink"] / 1e9), "gpu_scaling.json"],
                 ["{}: distinct keys, rows and sums of a batch once more".format(name), "{:.2f} ms".format(
                     1e3 * kernels(layout)), "gpu_embedding.json"]]
    rows += [["a network adapter, each way", "{:.0f} GB/s, of which exchanges get {:.0%}".format(
                  ASSUMED["network"] / 1e9, ASSUMED["of the network"]), "assumed"],
             ["each other rank in an exchange", "{:.0f} us".format(1e6 * ASSUMED["a message"]), "assumed"],
             ["the host, for one more exchange", "{:.0f} us".format(1e6 * ASSUMED["a turn"]), "assumed"]]
    return table(["what", "how much", "from"], rows)


def coordinator():
    """The table of what rank 0 does."""
    report = load("coordinator")
    shown = [case for case in report["cases"] if case["width"] in (None, WIDTH)]
    ranks = sorted({case["ranks"] for case in shown})
    rows = []
    for tables in sorted({case["tables"] for case in shown}):
        for kind in sorted({case["kind"] for case in shown}):
            for by, headers, width in (("C++", "short", None), ("C++", "short", WIDTH), ("C++", "whole", None),
                                       ("Python", "short", None), ("Python", "short", WIDTH)):
                of = {case["ranks"]: case for case in shown if (
                    case["tables"], case["kind"], case["by"], case["headers"], case["width"]) == (
                        tables, kind, by, headers, width)}
                if of:
                    rows.append([str(tables), kind, by, headers, "in a tree" if width else "directly"] + [
                        "{:.3f}".format(of[n]["ms"]["all"]) if n in of else "" for n in ranks])
    about = "{}, {} cores, load {}; commit {}.".format(
        report["hardware"]["processor"], report["hardware"]["cores"], report["hardware"]["load before"][0],
        report["commit"])
    return table(["tables", "lookups", "by", "headers", "talk"] + ["{} ranks".format(n) for n in ranks], rows) + [
        "", "Milliseconds of rank 0's CPU a step. " + about]


def widths():
    """The table of what ranks talk with how many others for."""
    cases = [case for case in load("coordinator")["cases"]
             if (case["by"], case["headers"], case["kind"]) == ("C++", "short", "a row a key") and case["ranks"] >= 12]
    rows = []
    for tables in sorted({case["tables"] for case in cases}):
        for ranks in sorted({case["ranks"] for case in cases}):
            of = {case["width"]: case for case in cases if (case["tables"], case["ranks"]) == (tables, ranks)}
            rows.append([str(tables), str(ranks)] + ["{:.3f}, {:.3f}, {}".format(
                one["ms"]["all"], one["ms until all have it"], one["messages"]) for _, one in sorted(
                    of.items(), key=lambda item: item[0] or 0)])
    names = sorted({case["width"] or 0 for case in cases})
    return table(["tables", "ranks"] + ["at most {} below each".format(one) if one else "directly" for one in names],
                 rows)


def page(text):
    """The page with its tables made anew."""
    for name, make in (("steps", steps), ("facts", facts), ("coordinator", coordinator),
                       ("widths", widths)):
        begin, end = (mark.format(name) for mark in MARKS)
        text = re.sub("{}.*?{}".format(re.escape(begin), re.escape(end)),
                      lambda _: "\n".join([begin, ""] + make() + ["", end]), text, flags=re.DOTALL)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if not options.write:
        print("\n".join(facts() + [""] + steps()))
        return
    with open(PAGE) as file:
        text = page(file.read())
    with open(PAGE, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
