"""`python -m sok1x.checkpoint show|verify|export DIR`: looks at checkpoints, verifies them, and exports tables."""
import argparse
import glob
import os
import sys
from typing import List, Optional

from sok1x.checkpoint.commands import export, show, verify
from sok1x.checkpoint.errors import CheckpointError, NotFoundError
from sok1x.checkpoint.files import folders, manifest, urls


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sok1x.checkpoint", description="Look at sok1x's checkpoints, verify them, and export tables.")
    commands = parser.add_subparsers(dest="command", metavar="show|verify|export")
    commands.required = True
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("directory", metavar="DIR", help="a checkpoint_dir, or the folder of one step in it")
    shared.add_argument("--step", type=int, help="which step's checkpoint in DIR; the greatest where not given, of "
                        "those that hooks, managers and Savers on several ranks have saved")
    commands.add_parser("show", parents=[shared], help="step, ranks, tables, rows, sizes, load factors, slots")
    commands.add_parser("verify", parents=[shared], help="read every block of every file; exit code 1 on a fault")
    exporting = commands.add_parser("export", parents=[shared], help="write tables in other formats")
    exporting.add_argument("--table", action="append", metavar="NAME", help="a table; may be repeated; default: all")
    exporting.add_argument("--format", required=True, choices=export.FORMATS,
                           help="npz: arrays keys and values; files: NAME_keys.file (int64) and NAME_values.file "
                                "(float32), as SOK's Saver writes them; tensorflow: a checkpoint with one variable "
                                "[rows, D], row i being key i")
    exporting.add_argument("--output", required=True, metavar="PATH",
                           help="npz: a file ending with .npz, or a folder; files: a folder; tensorflow: a prefix")
    exporting.add_argument("--rows", type=int, help="tensorflow: rows of the variable; default: the greatest key + 1")
    exporting.add_argument("--compact", action="store_true",
                           help="tensorflow: only rows that are there, by ascending key, and a variable NAME/keys")
    exporting.add_argument("--dense", action="store_true",
                           help="tensorflow: the dense variables too, by which a stock model can start")
    return parser


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs one command, and returns the exit code: 0, or 1 where a checkpoint is missing, damaged or does not fit."""
    parser = _parser()
    given = parser.parse_args(arguments)
    for argument, name in (("DIR", "directory"), ("--output", "output")):
        if hasattr(given, name):
            setattr(given, name, _path(parser, argument, getattr(given, name)))
    if given.command == "export" and given.format != "tensorflow" and (
            given.rows is not None or given.compact or given.dense):
        parser.error("--rows, --compact and --dense are for --format tensorflow")
    if given.command == "export" and given.format == "tensorflow":
        if given.rows is not None and given.rows < 0:
            parser.error("--rows: got {}, expected 0 or more".format(given.rows))
        if os.path.basename(given.output) in ("", ".", ".."):
            parser.error("--output: got {!r}, expected a checkpoint's prefix, as FOLDER/NAME".format(given.output))
    try:
        folder = _find(given.directory, given.step)
        if given.command == "show":
            for line in show.lines(folder):
                print(line)
        elif given.command == "verify":
            return _verify(folder)
        else:
            for path in export.export(folder, given.table, given.format, given.output, given.rows, given.compact,
                                      given.dense):
                print(path)
    except CheckpointError as error:
        print("error: {}".format(error), file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read the output has enough of it, as head does; nothing is left to be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _path(parser: argparse.ArgumentParser, argument: str, given: str) -> str:
    try:
        return urls.folder(argument, given)
    except ValueError as error:
        return parser.error(str(error))  # which ends the program


def _find(directory: str, step: Optional[int]) -> str:
    """The checkpoint's folder. Where that is the last: also one of another name, which a Saver has saved on several
    ranks; of what one has saved on one rank, which makes no such folders, it says so."""
    if step is not None or folders.is_complete(directory) or not glob.glob(
            os.path.join(glob.escape(directory), "*.index")):
        return folders.find(directory, step)
    import tensorflow.compat.v1 as tf  # slow to import, and for this alone

    from sok1x.checkpoint.session import dense_saver
    named = tf.train.latest_checkpoint(directory)
    of_ours = named is not None and folders.is_complete(named)
    try:
        folder = folders.find(directory)
    except NotFoundError as error:
        if named is None:
            raise
        if of_ours:
            return named
        raise NotFoundError("{} TensorFlow's state file there names {}, which a tf.train.Saver has saved on one rank: "
                            "tf.train.Saver().restore reads it, and sok1x.serving.export_saved_model.".format(
                                error, named)) from None
    last = manifest.read(folder)
    if of_ours and manifest.read(named).written >= last.written:  # its name need not say a step
        return named
    later = dense_saver.later_named(directory, last.step)
    if later is not None:
        print("warning: this is {}; TensorFlow's state file in {} names a later checkpoint, {}, which a tf.train.Saver "
              "has saved on one rank: tf.train.Saver().restore reads that one, and "
              "sok1x.serving.export_saved_model".format(folder, directory, later), file=sys.stderr)
    return folder


def _verify(folder: str) -> int:
    code = 0
    for fault in verify.faults(folder):
        print("fault: {}".format(fault), flush=True)
        code = 1
    if not code:
        print(verify.summary(folder))
    return code


if __name__ == "__main__":
    sys.exit(main())
