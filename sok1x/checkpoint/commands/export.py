"""Export of chosen tables of a checkpoint, in one of several formats."""
from typing import List, Optional, Sequence

from sok1x.checkpoint.commands import export_arrays
from sok1x.checkpoint.errors import NotFoundError
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.table_rows import TableRows
from sok1x.checkpoint.progress import Progress

FORMATS = ("npz", "files", "tensorflow")


def export(folder: str, names: Optional[Sequence[str]], form: str, output: str, rows: Optional[int] = None,
           compact: bool = False, dense: bool = False) -> List[str]:
    """Exports tables.

    Args:
        folder: The folder of one step.
        names: The tables; None for all.
        form: One of FORMATS.
        output: Where to; what it is depends on the format.
        rows: As export_tensorflow.tensorflow has it.
        compact: Likewise.
        dense: Whether a TensorFlow checkpoint has the dense variables too.

    Returns:
        The files that were written.

    Raises:
        CheckpointError: There is no table, or not this one, or it does not fit the format, a file is damaged, or the
            system refuses to write. Nothing half-written is left.
    """
    checkpoint = Checkpoint(folder)
    chosen = sorted(checkpoint.manifest.tables) if names is None else list(dict.fromkeys(names))
    if not chosen:
        raise NotFoundError("There is no table in {}, which has dense variables alone.".format(folder))
    tables = [TableRows(checkpoint, name) for name in chosen]
    progress = Progress("exported", sum(table.bytes for table in tables))
    if form == "npz":
        return export_arrays.npz(tables, output, progress)
    if form == "files":
        return export_arrays.plain(tables, output, progress)
    # Takes seconds to import TensorFlow, and only this needs it.
    from sok1x.checkpoint.commands.export_tensorflow import tensorflow
    return tensorflow(tables, output, progress, rows, compact, checkpoint if dense else None)
