"""Export of tables as NumPy's .npz and as plain files of keys and values, a chunk at a time."""
import os
import zipfile
from contextlib import ExitStack
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np

from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import outputs, shard_names
from sok1x.checkpoint.files.table_rows import TableRows
from sok1x.checkpoint.progress import Progress


def npz(tables: List[TableRows], output: str, progress: Progress) -> List[str]:
    """Writes `keys`, int64 [n], and `values`, float32 [n, D], of each table; returns the files.

    Args:
        tables: The tables.
        output: The file of a single table, ending with .npz, or a folder that gets a file NAME.npz for each.
        progress: Is called with bytes that were read.

    Raises:
        CheckpointError: A file is damaged, or the system refuses to write.
    """
    if not output.endswith(".npz"):
        paths = [os.path.join(output, shard_names.encoded(table.name) + ".npz") for table in tables]
    elif len(tables) == 1:
        paths = [output]
    else:
        raise CheckpointError("{} is one file, and {} tables are to be exported: choose one with --table, or name a "
                              "folder as --output.".format(output, len(tables)))
    outputs.make_folder(os.path.dirname(paths[0]))
    with ExitStack() as files:
        for table, path in zip(tables, paths):
            with zipfile.ZipFile(files.enter_context(outputs.beside(path)), "w") as archive:
                _add(archive, "keys", "<i8", (table.count,), table.keys(), progress)
                _add(archive, "values", "<f4", (table.count, table.dim), table.values(), progress)
    return paths


def plain(tables: List[TableRows], output: str, progress: Progress) -> List[str]:
    """Writes NAME_keys.file, int64, and NAME_values.file, float32, little-endian, as SOK's Saver does.

    Args, Returns and Raises are those of `npz`; `output` is a folder.
    """
    outputs.make_folder(output)
    paths = []
    with ExitStack() as files:
        for table in tables:
            for part, chunks in (("keys", table.keys()), ("values", table.values())):
                path = os.path.join(output, "{}_{}.file".format(shard_names.encoded(table.name), part))
                paths.append(path)
                file = files.enter_context(outputs.beside(path))
                for chunk in chunks:
                    outputs.write(file, chunk)
                    progress(chunk.nbytes)
    return paths


def _add(archive: zipfile.ZipFile, name: str, descr: str, shape: Tuple[int, ...], chunks: Iterator[np.ndarray],
         progress: Progress) -> None:
    header: Dict[str, Any] = {"descr": descr, "fortran_order": False, "shape": shape}
    # The length is not told beforehand, so the archive has to be told that it may pass 4 GB.
    with archive.open(zipfile.ZipInfo(name + ".npy"), "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in chunks:
            outputs.write(file, chunk)
            progress(chunk.nbytes)
