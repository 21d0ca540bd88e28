"""`python -m sok1x.serving export SAVED --to MODEL`, and `update MODEL --to NEXT`: models for production."""
import argparse
import contextlib
import os
import sys
import zipfile
import zlib
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from sok1x.checkpoint.errors import CheckpointError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sok1x.serving",
        description="Write SavedModels of stock ops, which TensorFlow Serving loads, from checkpoints.")
    commands = parser.add_subparsers(dest="command", metavar="export|update")
    commands.required = True
    exporting = commands.add_parser(
        "export", help="from a checkpoint: the model that its graph is marked for (sok1x.serving.mark_for_serving) or "
                       "that --input and --output name, else the tables alone")
    exporting.add_argument("checkpoint", metavar="SAVED", help="a checkpoint_dir, the folder of one step in it, or the "
                                                               "prefix of a tf.train.Saver's files")
    exporting.add_argument("--to", required=True, metavar="MODEL", help="the SavedModel's folder, which must not be "
                                                                        "there; for TensorFlow Serving NAME/1")
    exporting.add_argument("--step", type=int, help="which step's checkpoint; the latest where not given")
    exporting.add_argument("--input", action="append", default=[], metavar="NAME=TENSOR",
                           help="a placeholder of the checkpoint's graph; may be repeated")
    exporting.add_argument("--output", action="append", default=[], metavar="NAME=TENSOR",
                           help="a tensor of the checkpoint's graph; may be repeated")
    exporting.add_argument("--constant", action="append", default=[], metavar="TENSOR=VALUE",
                           help="what a placeholder always is: a number, true or false; may be repeated")
    exporting.add_argument("--table", action="append", metavar="NAME",
                           help="of tables alone, one; may be repeated; default: all")
    exporting.add_argument("--tables_alone", action="store_true", help="the tables, whatever the graph is marked for")
    exporting.add_argument("--unseen", metavar="NUMBER", type=float,
                           help="what keys read that have no row; default: what they read in an evaluation")
    exporting.add_argument("--storage", choices=("float32", "float16"), default="float32", help="of the rows")
    exporting.add_argument("--index", choices=("table", "search"), default="table", help="how keys are found")
    exporting.add_argument("--ranks", type=int, help="how many evaluate, if not those that have saved: see "
                                                     "sok1x.serving.export_saved_model")
    exporting.add_argument("--seed", type=int, help="with which the tables were trained, if it was given to sok.init")
    updating = commands.add_parser("update", help="a model's next version, with rows that have changed")
    updating.add_argument("model", metavar="MODEL", help="a SavedModel that export has written")
    updating.add_argument("--to", required=True, metavar="NEXT", help="the new one's folder, which must not be there")
    updating.add_argument("--changes", action="append", default=[], metavar="TABLE=FILE.npz",
                          help="arrays keys [n] and values [n, D], as of sok.incremental_dump; may be repeated, also "
                               "for one table, for the ranks' files")
    updating.add_argument("--evicted", action="append", default=[], metavar="TABLE=FILE.npz",
                          help="an array keys [n], as of sok.evicted_keys; may be repeated")
    return parser


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs one command, and returns the exit code: 0, or 1 where something is missing, damaged or does not fit."""
    given = _parser().parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        print(_export(given) if given.command == "export" else _update(given))
    except (CheckpointError, ValueError, TypeError) as error:
        print("error: {}".format(error), file=sys.stderr)
        return 1
    return 0


def _export(given: Any) -> str:
    from sok1x.serving.export import export_saved_model
    alone = "--table" if given.table else "--tables_alone" if given.tables_alone else ""
    model = [name for name in ("input", "output", "constant") if getattr(given, name)]
    if alone and model:
        raise ValueError("got {} beside --{}, expected tables alone or a model".format(alone, " and --".join(model)))
    if given.input and not given.output:
        raise ValueError("got --input without --output, expected both, or neither for what the graph is marked for")
    outputs: Any = dict(_pair("--output", one) for one in given.output) or None
    inputs: Any = dict(_pair("--input", one) for one in given.input) if outputs else None
    if alone:
        inputs, outputs = {}, {}
    constants = dict(_constant(one) for one in given.constant) or None
    return export_saved_model(
        given.to, given.checkpoint, inputs=inputs, outputs=outputs, storage=given.storage, index=given.index,
        constants=constants, step=given.step,
        tables=given.table, seed=given.seed, ranks=given.ranks,
        unseen="initial" if given.unseen is None else given.unseen)


def _update(given: Any) -> str:
    from sok1x.serving.updating import update_saved_model
    changes: Dict[str, Tuple[Any, Any]] = {}
    for name, path in (_pair("--changes", one) for one in given.changes):
        keys, values = _arrays(path, "keys", "values")
        before = changes.get(name)
        changes[name] = (keys, values) if before is None else (
            np.concatenate([before[0], keys]), np.concatenate([before[1], values]))
    evicted: Dict[str, Any] = {}
    for name, path in (_pair("--evicted", one) for one in given.evicted):
        keys, = _arrays(path, "keys")
        evicted[name] = np.concatenate([evicted[name], keys]) if name in evicted else keys
    return update_saved_model(given.model, given.to, changes, evicted)


def _arrays(path: str, *names: str) -> List[Any]:
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("expected an .npz file")
        with file:
            return [file[name] for name in names]
    except (OSError, KeyError, ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise CheckpointError("Cannot read {} from {}: {}.".format(" and ".join(names), path, error)) from None


def _pair(option: str, text: str) -> Tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise ValueError("{}: got {!r}, expected NAME=VALUE".format(option, text))
    return name, value


def _constant(text: str) -> Tuple[str, Any]:
    name, value = _pair("--constant", text)
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    for kind in (int, float):  # 3 may be of either type of placeholders
        with contextlib.suppress(ValueError):
            return name, kind(value)
    raise ValueError("--constant {}: got {!r}, expected a number, true or false".format(name, value))


if __name__ == "__main__":
    sys.exit(main())
