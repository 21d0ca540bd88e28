"""SOK's Saver: tables to files and back, as ops of the graph."""
import dataclasses
from typing import Any, List, Union

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.files import former_names, urls
from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.stores import stamps
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import TableVariables
from sok1x.graph_ops.transfer import sok_dump, sok_restore, sok_values


class Saver:
    """Dumps tables to files that SOK 1.x reads too, restores them from such files, and loads them from tensors.

    Each method makes an op, which must be made before the graph is finalized and be run on all ranks. It gives `OK`
    when all ranks are done; if one of them fails, it fails on all.

    In the folder that a method is given a table has two files, named after `embedding_variable.m_var_name`:
    `NAME_keys.file`, the keys of all ranks, little-endian without a header, and `NAME_values.file`, float32 [rows, D],
    their rows in the same order. Keys are uint32 where the table's are; those of all other tables are int64. The files
    hold exactly the keys that have been inserted, rank after rank; of a table with `use_hashtable=False` they hold all
    V * N keys in ascending order. Nothing else of a table is in them: optimizer slots stay as they are, row by row. Of
    a hash table that has trained in this session before, they are other keys' then: run the slots' initializers after
    `restore_from_file` and `load_embedding_values`, or use `sok1x.load` or a `tf.train.Saver`, which do so.

    No rank needs more memory than for its shard and buffers of some tens of megabytes; `restore_from_file`, to look for
    repeated keys, a byte for each of its keys where these are more than 2^25.

    Example:
        >>> import tempfile
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> folder = tempfile.mkdtemp()
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
        ...     vectors = layer(tf.constant([[[7], [9]]], tf.int64))
        ...     saver = sok.Saver()
        ...     dumped = saver.dump_to_file(layer.embedding_variable, folder)
        ...     restored = saver.restore_from_file(layer.embedding_variable, folder)
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     before = session.run(vectors)
        ...     print(session.run(dumped))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     print(session.run(restored))
        ...     print((session.run(vectors) == before).all())
        b'OK'
        b'OK'
        True
    """

    def dump_to_file(self, embedding_variable: EmbeddingVariable, filepath: str) -> tf.Tensor:
        """An op that writes a table of all ranks to files.

        The files get their names when they are complete; until then, and if the dump fails, older files of the same
        names stay as they are. All ranks write, so the folder must be one that all of them see under this path.
        A hook that runs the op as its session begins comes after the one that restores the session's tables.

        Args:
            embedding_variable: the table.
            filepath: the folder; it is made where it is missing.

        Returns:
            A scalar string tensor, b"OK" when run.

        Raises:
            TypeError: embedding_variable is no `EmbeddingVariable` of float32 rows, or filepath no str.
            ValueError: filepath is empty, or a URL other than file://.
            tf.errors.FailedPreconditionError: (when run) the table is not initialized, a rank does not see rank 0's
                files, or has keys of other ranks, to which tf.nn.embedding_lookup has given rows.
            tf.errors.ResourceExhaustedError: (when run) the disk is full.

        Example:
            >>> import os, tempfile
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> folder = tempfile.mkdtemp()
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     table = sok.EmbeddingVariable(rows=8, dim=4, use_hashtable=False)
            ...     dumped = sok.Saver().dump_to_file(table, folder)
            ...     _ = session.run(sok.Init(global_batch_size=1))
            ...     _ = session.run(tf.global_variables_initializer())
            ...     _ = session.run(dumped)
            >>> sorted((name, os.path.getsize(os.path.join(folder, name))) for name in os.listdir(folder))
            [('EmbeddingVariable_keys.file', 64), ('EmbeddingVariable_values.file', 128)]
        """
        variables, folder = _variables("dump_to_file", embedding_variable), _folder("dump_to_file", filepath)
        leave = embedding_variable.leave
        with tf.control_dependencies([] if leave is None else [leave(embedding_variable)]):
            return _ok(sok_dump.dump(variables, folder), "dump_to_file")

    def restore_from_file(self, embedding_variable: EmbeddingVariable, filepath: str) -> tf.Tensor:
        """An op that replaces a table of all ranks by what files hold.

        A hash table has exactly the files' keys afterwards; without one, rows whose keys are not in the files stay as
        they are. The files may come from any number of ranks. How wide their keys are follows from their sizes (4 or 8
        bytes a row; those of 4 are unsigned), so that what an int64 table dumped loads into a uint32 one, and the
        reverse. All ranks read all keys and check them before anything changes. Keys and rows are of one dump, also
        where another job dumps to the folder meanwhile.

        With a Keras initializer object the rows of keys to come are left as they are too: restore into a table that
        has just been initialized.

        Args:
            embedding_variable: the table, of the same embedding_vec_size as the one that was dumped. The files do not
                tell theirs; another one is noticed where it does not fit their sizes and keys.
            filepath: the folder.

        Returns:
            A scalar string tensor, b"OK" when run.

        Raises:
            TypeError: embedding_variable is no `EmbeddingVariable` of float32 rows, or filepath no str.
            ValueError: filepath is empty, or a URL other than file://.
            tf.errors.NotFoundError: (when run) a file is missing.
            tf.errors.InvalidArgumentError: (when run) the files' sizes do not fit, a key comes twice or is none for
                this table: beyond its key_dtype, or without a hash table beyond its V * N keys.
            tf.errors.ResourceExhaustedError: (when run) a rank has more keys than rows.
            tf.errors.FailedPreconditionError: (when run) the table is not initialized, or ranks see different files.
            tf.errors.AbortedError: (when run) other files take the place of these again and again.

        Example:
            >>> import tempfile
            >>> import numpy as np
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> folder = tempfile.mkdtemp()
            >>> np.array([7, 5]).astype("<i8").tofile(folder + "/EmbeddingVariable_keys.file")
            >>> np.array([[1, 2], [3, 4]]).astype("<f4").tofile(folder + "/EmbeddingVariable_values.file")
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     layer = sok.All2AllDenseEmbedding(
            ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=2, slot_num=2, nnz_per_slot=1)
            ...     vectors = layer(tf.constant([[[5], [7]]], tf.int64), training=False)
            ...     restored = sok.Saver().restore_from_file(layer.embedding_variable, folder)
            ...     _ = session.run(sok.Init(global_batch_size=1))
            ...     _ = session.run(tf.global_variables_initializer())
            ...     _ = session.run(restored)
            ...     session.run(vectors).tolist()
            [[[[3.0, 4.0]], [[1.0, 2.0]]]]
        """
        variables = _variables("restore_from_file", embedding_variable)
        files_of = variables
        if former_names.is_anothers(variables.table.saved_name, embedding_variable):
            # So are its files. In a graph the op asks again as it runs: the other may be made later.
            files_of = dataclasses.replace(variables, table=variables.table._replace(former_name=""))
        restored = sok_restore.restore(files_of, _folder("restore_from_file", filepath))
        return _ok(_marked(variables, restored), "restore_from_file")

    def load_embedding_values(self, embedding_variable: EmbeddingVariable,
                              tensors: Union[tf.Tensor, List[tf.Tensor]]) -> tf.Tensor:
        """An op that gives the keys 0, 1, 2, … of a table of all ranks the rows of tensors.

        A hash table has exactly these keys afterwards; without one, all other rows stay as they are. All ranks give
        the same values, of which each takes those of its own keys.

        Args:
            embedding_variable: the table.
            tensors: [rows, D], of numbers, row i being that of key i; or a list of such tensors, which follow each
                other.

        Returns:
            A scalar string tensor, b"OK" when run.

        Raises:
            TypeError: embedding_variable is no `EmbeddingVariable` of float32 rows, or tensors no numbers.
            ValueError: a tensor's shape is known and is not [rows, D], or there is none.
            tf.errors.InvalidArgumentError: (when run) a tensor is not [rows, D], there are more rows than the
                V * N of the table, or ranks give different numbers of rows.
            tf.errors.FailedPreconditionError: (when run) the table is not initialized.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     table = sok.EmbeddingVariable(rows=3, dim=2, use_hashtable=False, initializer="zeros")
            ...     rows = [tf.constant([[1, 2]]), tf.constant([[3.0, 4.0]])]
            ...     loaded = sok.Saver().load_embedding_values(table, rows)
            ...     _ = session.run(sok.Init(global_batch_size=1))
            ...     _ = session.run(tf.global_variables_initializer())
            ...     _ = session.run(loaded)
            ...     session.run(table).tolist()
            [[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]
        """
        variables = _variables("load_embedding_values", embedding_variable)
        given = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
        if not given:
            raise ValueError("load_embedding_values: got an empty list of tensors, expected at least one")
        loaded = sok_values.load_values(
            variables, [_values(variables.table, place, one) for place, one in enumerate(given)])
        return _ok(_marked(variables, loaded), "load_embedding_values")


def _variables(method: str, variable: Any) -> TableVariables:
    if not isinstance(variable, EmbeddingVariable):
        raise TypeError("{}: embedding_variable: got {!r} of type {}, expected an EmbeddingVariable (a layer's "
                        "embedding_variable)".format(method, variable, type(variable).__name__))
    if variable.table.dtype != "float32":
        raise TypeError("{}: embedding_variable: got '{}' of {}, and SOK 1.x's files have rows of float32; use "
                        "sok1x.dump and sok1x.load".format(method, variable.table.name, variable.table.dtype))
    eager.note_in_function(variable)
    return variable.table_variables


def _folder(method: str, filepath: Any) -> str:
    if not isinstance(filepath, str):
        raise TypeError("{}: filepath: got {!r} of type {}, expected a folder's path as a str".format(
            method, filepath, type(filepath).__name__))
    if not filepath:
        raise ValueError("{}: filepath: got an empty str, expected a folder's path".format(method))
    return urls.folder(method + ": filepath", filepath)


def _values(table: Table, place: int, values: Any) -> tf.Tensor:
    tensor = tf.convert_to_tensor(values)
    what = "load_embedding_values: tensors: got at position {} a tensor".format(place)
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        raise TypeError("{} of {}, expected numbers".format(what, tensor.dtype.name))
    if not tensor.shape.is_compatible_with([None, table.dim]):
        raise ValueError("{} of shape {}, expected [rows, {}] for table '{}'".format(
            what, tensor.shape, table.dim, table.name))
    return tf.cast(tensor, tf.float32)


def _marked(variables: TableVariables, loaded: tf.Operation) -> tf.Operation:
    """Has all rows count as changed for incremental dumps."""
    with tf.control_dependencies([loaded]):
        return stamps.mark(variables)


def _ok(done: tf.Operation, name: str) -> tf.Tensor:
    # A string lives in host memory, whatever device the caller's scope names.
    with tf.control_dependencies([done]), tf.device("/cpu:0"):
        return tf.constant("OK", name=name)
