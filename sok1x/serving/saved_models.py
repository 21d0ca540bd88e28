"""A served graph and its tables as a folder: written beside its place, and there when it is whole."""
import json
import os
import secrets
import shutil
from typing import Any, Callable, Dict, Iterator, List

import tensorflow.compat.v1 as tf

from sok1x.checkpoint import errors, tensorflow_errors
from sok1x.checkpoint.files import folders
from sok1x.checkpoint.progress import Progress
from sok1x.core.tables import own_sessions
from sok1x.graph_ops.bridge.tensorflow_versions import deprecation
from sok1x.serving import bundles, parts, sources, table_data, tables
from sok1x.serving.building import Built

TABLES_FILE = os.path.join("assets.extra", "sok1x_tables.json")


class _StreamingSaver(tf.train.Saver):
    """Restores what it is made of; to save, it streams it from the checkpoint."""

    def __init__(self, saveables: List[Any], stream: Callable[[str], None]) -> None:
        super().__init__(saveables, allow_empty=True)
        self._stream = stream

    def save(self, sess: Any, save_path: str, *arguments: Any, **options: Any) -> str:
        """Called by the SavedModel's builder."""
        self._stream(save_path)
        return save_path


def write(export_dir: str, source: sources.Source, build: Callable[[], Built]) -> None:
    """Writes what `build` makes in the graph that it is called in. Raises CheckpointError."""
    final = os.path.abspath(export_dir)
    partial = os.path.join(os.path.dirname(final), ".{}.{}.tmp".format(os.path.basename(final), secrets.token_hex(4)))
    try:
        with tf.Graph().as_default(), deprecation.silence(), \
                tf.Session(config=own_sessions.config()) as session:
            built = build()
            saver = _StreamingSaver(built.saveables, lambda path: _stream(path, source, built))
            with tensorflow_errors.refusals(final, 0):
                builder = tf.saved_model.Builder(partial)
            _make_folder(os.path.join(partial, "variables"))
            builder.add_meta_graph_and_variables(
                session, [tf.saved_model.tag_constants.SERVING], signature_def_map=built.signatures,
                assets_collection=built.assets or None, main_op=built.main_op, saver=saver, strip_default_attrs=True)
            leave_out_debug_names(builder._saved_model)
            with tensorflow_errors.refusals(final, builder._saved_model.ByteSize()):
                builder.save()
        write_facts(partial, {name: served for name, (served, _) in built.tables.items()})
        publish(partial, final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_facts(folder: str, served: Dict[str, tables.Served]) -> None:
    """What `update_saved_model` must know of the tables in a SavedModel. Raises WriteError."""
    path = os.path.join(folder, TABLES_FILE)
    facts = {name: {"dim": one.dim, "hashed": one.hashed, "storage": one.storage, "index": one.find_by, "wide":
                    one.wide, "absent": list(one.absent)} for name, one in served.items()}
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            json.dump({"format": 1, "tables": facts}, file, indent=1, sort_keys=True)
            file.write("\n")
    except OSError as error:
        raise errors.of_write(error, path) from None


def leave_out_debug_names(saved_model: Any) -> None:
    """What releases from 2.15 on say of variables, for whoever looks for a fault, and those before do not read."""
    for meta in saved_model.meta_graphs:
        for nodes in [meta.graph_def.node] + [function.node_def for function in meta.graph_def.library.function]:
            for node in nodes:
                node.attr.pop("debug_name", None)


def _make_folder(path: str) -> None:
    try:
        os.mkdir(path)
    except OSError as error:
        raise errors.of_write(error, path) from None


def publish(partial: str, final: str) -> None:
    """Gives a SavedModel its name, whole. Raises WriteError."""
    for folder, _, names in os.walk(partial):
        for name in names:
            folders.fsync_file(os.path.join(folder, name))
        folders.fsync_folder(folder)
    try:
        os.rename(partial, final)
        folders.fsync_folder(os.path.dirname(final))
    except OSError as error:
        raise errors.of_write(error, final) from None


def _stream(prefix: str, source: sources.Source, built: Built) -> None:
    """Writes the files of the SavedModel's variables."""
    pieces = os.path.join(os.path.dirname(os.path.dirname(prefix)), "parts")
    _make_folder(pieces)
    writer = bundles.BundleWriter(pieces, prefix)
    progress = Progress("exported", sum(source.facts(name).most * 4 * source.facts(name).dim
                                        for name in built.tables))
    for name, (served, reads) in built.tables.items():
        table_data.write(writer, served, source.facts(name), _counted(source.chunks(name), progress), reads.row)
    if built.variables:
        reader = source.dense()
        for name, part in built.variables.items():
            writer.add(name, parts.read(reader, name, part))
    writer.finish()
    shutil.rmtree(pieces)


def _counted(chunks: Iterator[sources.Chunk], progress: Callable[[int], None]) -> Iterator[sources.Chunk]:
    for keys, rows in chunks:
        yield keys, rows
        progress(rows.nbytes)
