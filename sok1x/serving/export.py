"""Models for production: SavedModels of stock ops from a model's graph and a checkpoint."""
import os
from typing import Any, Callable, Optional

from sok1x import launch
from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import NotFoundError
from sok1x.checkpoint.files import urls
from sok1x.core.options.given_numbers import is_integer
from sok1x.serving import building, models, saved_models, sources
from sok1x.serving.building import Options
from sok1x.serving.tables import FINDERS

__all__ = ["export_saved_model"]

STORAGES = ("float32", "float16")
_FUNCTION = "sok1x.serving.export_saved_model"


def export_saved_model(export_dir: str, checkpoint: str, model: Optional[Callable[[], Any]] = None, *,
                       inputs: Any = None, outputs: Any = None, constants: Any = None, unseen: Any = "initial",
                       storage: str = "float32", index: str = "table", step: Optional[int] = None,
                       tables: Any = None, seed: Optional[int] = None, ranks: Optional[int] = None) -> str:
    """Writes a SavedModel that predicts what an evaluation predicts, by stock ops alone.

    TensorFlow Serving, `saved_model_cli` and any TensorFlow load it, without sok1x. Lookups of all kinds (layers,
    `lookup_sparse`, feature columns) become lookups in whole tables, whose rows are put together from all ranks' shards
    a stretch at a time: memory is 36 bytes for each key of the largest table, and about 200 MB. Tables are among the
    SavedModel's variables, so their size is not limited. On the host predictions are the same bit for bit as those of
    an evaluation on as many ranks as have written the checkpoint.

    On several ranks rank 0 writes, and the others return at once.

    Args:
        export_dir: the SavedModel's folder, which must not be there; it appears whole. TensorFlow Serving wants a
            number as its last part, the model's version.
        checkpoint: a checkpoint_dir, the folder of one step in it, or the prefix of a `tf.train.Saver`'s files,
            or of those that Keras' `save_weights(path, save_format="tf")` writes in a graph.
        model: a function that builds the model in a graph of its own, with the names that it had when it was trained,
            and returns (inputs, outputs) as below. Without it and `outputs` the graph that the checkpoint has is
            exported, if `mark_for_serving` has marked it; else the tables alone, each with a signature of its name:
            'keys' int64 of any shape in, 'rows' out. (The tables alone also with inputs={} and outputs={}.)
        inputs: {name: tensor}, of any shape and dtype, of a graph that is there already: placeholders, or any other
            tensors, which then are fed. A tf.SparseTensor NAME is fed as NAME_indices, NAME_values and
            NAME_dense_shape, a tf.RaggedTensor as NAME_values and NAME_row_splits.
        outputs: {name: tensor}, of any shape and dtype, of the same graph.
        constants: {tensor or its name: value} of other placeholders, of any shape and dtype, as one that says whether
            dropout is on. Lookups need none: they always evaluate.
        unseen: what keys read that have no row: 'initial', what they read in an evaluation; a number or [D]; or a dict
            of these by table.
        storage: of the rows, 'float32', or 'float16': half the size, each number rounded by at most 2^-11 of itself
            (below 6.1e-5 by at most 3e-8).
        index: how keys are found: 'table', or 'search', which takes no time to load and less memory, and more to
            find: see docs/serving.md.
        step: which step's checkpoint of a checkpoint_dir; None for the latest.
        tables: a list of names: these tables alone are exported, whatever the graph is marked for; None for the graph
            that is marked, or all tables. Not beside a model or outputs.
        seed: with which the tables were trained, if `sok.Init` in the graph, or `sok.init` here, does not say so.
        ranks: how many evaluate, where that are not those that have written the checkpoint (None). It matters for
            float16 lookups of bags, whose rows are rounded before they travel; where a layer is given
            `exchange='reduce_scatter'`, for which every rank adds up its part; and for what unseen keys read where that
            scales with the size of the whole table.

    Returns:
        export_dir.

    Raises:
        ValueError: an argument that does not fit, or outputs that need more than lookups.
        TypeError: an argument of another type.
        sok1x.checkpoint.errors.CheckpointError: the checkpoint is not whole, or does not fit the graph; or export_dir
            cannot be written.

    Example:
        >>> import tempfile
        >>> import tensorflow.compat.v1 as tf
        >>> import sok1x as sok
        >>> def model():
        ...     keys = tf.placeholder(tf.int64, [None, 2, 1])
        ...     layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=1024, embedding_vec_size=4, slot_num=2,
        ...                                       nnz_per_slot=1, embedding_initializer="ones")
        ...     return {"keys": keys}, {"sums": tf.reduce_sum(layer(keys, training=True), axis=[1, 2, 3])}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tf.Graph().as_default(), tf.Session() as session:
        ...         inputs, outputs = model()
        ...         _ = session.run(sok.Init(global_batch_size=1))
        ...         _ = session.run(tf.global_variables_initializer())
        ...         _ = session.run(outputs["sums"], {inputs["keys"]: [[[7], [8]]]})
        ...         _ = sok.CheckpointManager(folder + "/saved").save(session, 1)
        ...     path = sok.serving.export_saved_model(folder + "/model/1", folder + "/saved", model)
        ...     with tf.Graph().as_default(), tf.Session() as session:  # needs nothing of sok1x
        ...         signature = tf.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        ...         session.run(signature.outputs["sums"].name, {signature.inputs["keys"].name: [[[7], [9]]]}).tolist()
        [8.0]
    """
    options = _checked(Options(storage, index, unseen, seed, ranks or 0), model, inputs, outputs, tables)
    if ranks is not None and (not is_integer(ranks) or ranks < 1):
        raise ValueError("{}: ranks: got {!r}, expected how many evaluate, at least 1".format(_FUNCTION, ranks))
    final = urls.folder(_FUNCTION + ": export_dir", os.fspath(export_dir))
    path = urls.folder(_FUNCTION + ": checkpoint", os.fspath(checkpoint))
    world = launch.current()
    if world is not None and world.rank:
        return export_dir
    if os.path.lexists(final):
        raise errors.WriteError("Cannot write {}: it is there already; export to a new folder, as one with the next "
                                "number.".format(export_dir))
    source = sources.open_source(path, step)
    options = options._replace(ranks=ranks or source.ranks)
    built = None if tables is not None else _model_of(source, model, inputs, outputs, constants)
    saved_models.write(final, source, lambda: building.tables_alone(source, options, tables) if built is None
                       else building.whole(source, options, built))
    return export_dir


def _checked(options: Options, model: Any, inputs: Any, outputs: Any, tables: Any) -> Options:
    for what, value, known in (("storage", options.storage, STORAGES), ("index", options.find_by, FINDERS)):
        if value not in known:
            raise ValueError("{}: {}: got {!r}, expected {}".format(_FUNCTION, what, value, " or ".join(
                map(repr, known))))
    if model is not None and not callable(model):
        raise TypeError("{}: model: got {!r} of type {}, expected a function; tensors are inputs and outputs".format(
            _FUNCTION, model, type(model).__name__))
    if model is not None and (inputs is not None or outputs is not None):
        raise ValueError("{}: got both a model, and inputs or outputs, expected one of them".format(_FUNCTION))
    if (inputs is None) != (outputs is None):
        raise ValueError("{}: got {} alone, expected inputs and outputs".format(
            _FUNCTION, "outputs" if inputs is None else "inputs"))
    if isinstance(tables, str) or (tables is not None and not tables):
        raise ValueError("{}: tables: got {!r}, expected a list of names".format(_FUNCTION, tables))
    if tables is not None and (model is not None or outputs):
        raise ValueError("{}: got tables beside a model, expected one of them: a model has the tables that it "
                         "reads".format(_FUNCTION))
    return options


def _model_of(source: sources.Source, model: Any, inputs: Any, outputs: Any, constants: Any) -> Optional[models.Model]:
    if model is not None:
        return models.of_function(model, constants)
    if outputs is not None and not outputs:
        return None  # the tables alone
    if outputs is not None and not _are_names(outputs):
        return models.of_tensors(inputs, outputs, constants)
    if source.meta is None:
        if outputs is not None:
            raise NotFoundError("{} has no graph (a .meta file) in which the outputs could be found: give tensors, or "
                                "a function that builds the model.".format(source.where))
        return None
    return models.of_meta(source.meta, inputs, outputs, constants)


def _are_names(outputs: Any) -> bool:
    """Whether tensors of the checkpoint's graph are meant, as of the command."""
    return isinstance(outputs, dict) and bool(outputs) and all(isinstance(one, str) for one in outputs.values())
