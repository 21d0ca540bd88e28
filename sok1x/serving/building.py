"""The served graph: tables, variables and signatures, before anything is written."""
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.checkpoint.errors import MismatchError
from sok1x.graph_ops.bridge.tensorflow_versions import graph_pb2
from sok1x.graph_ops.stores.table import Table
from sok1x.serving import models, parts, rewriting, sources, subgraphs, table_data, tables, unseen

_DEFAULT = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class Options(NamedTuple):
    """See `export_saved_model`; find_by is its index, and `ranks` a number."""

    storage: str
    find_by: str
    unseen: Any
    seed: Optional[int]
    ranks: int


class Built(NamedTuple):
    """A served graph.

    Attributes:
        tables: {name: (`tables.Served`, `unseen.Unseen`)}.
        variables: {name: `parts.Part`, or None} of the dense ones.
        saveables: what a Saver takes.
        signatures: {name: SignatureDef}.
        main_op: what runs when the model has been loaded, or None.
        assets: tensors with paths of files.
    """

    tables: Dict[str, Any]
    variables: Dict[str, Optional[parts.Part]]
    saveables: List[Any]
    signatures: Dict[str, Any]
    main_op: Any
    assets: List[Any]


def _served(source: sources.Source, options: Options, name: str, described: Dict[str, Table], seed: int) -> Any:
    """How a table is served, and what its unseen keys read; described: the model's tables, also those that the outputs
    do not need."""
    table = described.get(name)
    if table is not None and table.saved_name not in described:  # what another table is called now is that one's
        source.look_for(name, table.saved_name)
    facts = source.facts(name)
    if table is not None and (facts.dim, facts.hashed) != (table.dim, table.hashed):
        raise MismatchError("Table '{}' has D={} and use_hashtable={} in {}, and D={} and use_hashtable={} in the "
                            "model: build the model as it was when the checkpoint was saved.".format(
                                name, facts.dim, facts.hashed, source.where, table.dim, table.hashed))
    reads = unseen.Unseen(np.zeros([facts.dim], np.float32), None)
    if facts.hashed:
        reads = unseen.of_table(name, facts.dim, options.unseen, table, source, seed, options.ranks)
    absent = (0, 0, 0)
    if facts.hashed and options.find_by == "table":
        absent = tables.choose_absent(name, lambda: source.keys(name))
    return tables.Served(name, facts.dim, facts.hashed, options.storage, reads.draw, options.find_by,
                         table_data.is_wide(facts), absent, options.ranks), reads


def tables_alone(source: sources.Source, options: Options, chosen: Any) -> Built:
    """Lookups in tables, in the current graph: a signature for each, and one for all of them."""
    described: Dict[str, Any] = {}
    seed = unseen.seed_of(None, options.seed)
    if source.meta is not None:
        graph_def = models.read_meta(source.meta).graph_def
        described, seed = subgraphs.tables_of(graph_def, Table), unseen.seed_of(graph_def, options.seed)
    built = Built({}, {}, [], {}, None, [])
    every: List[Dict[str, tf.Tensor]] = [{}, {}]
    for name in sources.names(source, chosen):
        served, reads = _served(source, options, name, described, seed)
        handles, saveables = tables.make(served)
        built.tables[name] = served, reads
        built.saveables.extend(saveables)
        with tf.name_scope("lookup/" + name):
            keys = tf.placeholder(tf.int64, None, name="keys")
            rows = tf.identity(tables.rows_of(served, handles, keys), name="rows")
        built.signatures[name] = tf.saved_model.predict_signature_def({"keys": keys}, {"rows": rows})
        every[0][name], every[1][name] = keys, rows
    if isinstance(options.unseen, dict):
        unseen.check_names(options.unseen, [*built.tables, *source.tables, *described])
    if len(built.tables) == 1:
        every = [{"keys": one for one in every[0].values()}, {"rows": one for one in every[1].values()}]
    built.signatures[_DEFAULT] = tf.saved_model.predict_signature_def(*every)
    return built


def whole(source: sources.Source, options: Options, model: models.Model) -> Built:
    """A model, in the current graph."""
    given = [one.tensor for one in model.inputs.values()] + list(model.constants)
    subgraph = subgraphs.Subgraph(model.graph_def, model.outputs.values(), given)
    names = {node.name for node in subgraph.nodes}
    # Of the graph's own lookup tables those that the outputs look at are filled when the model is loaded.
    by_name = {node.name: node for node in model.graph_def.node}
    initializers = [name for name in model.initializers
                    if name in by_name and by_name[name].input
                    and subgraphs.reference(by_name[name].input[0]).node in names]
    targets = list(model.outputs.values()) + initializers
    subgraph = subgraphs.Subgraph(model.graph_def, targets, given)
    subgraphs.refuse_empty_tables(subgraph, initializers)
    names = {node.name for node in subgraph.nodes}
    built = Built({}, {}, [], {}, None, [])
    mapped: Dict[str, Any] = {}
    seed = unseen.seed_of(model.graph_def, options.seed)
    needed = rewriting.needed_tables(subgraph)
    described = {**subgraphs.tables_of(model.graph_def, Table), **needed}
    for name in needed:
        served, reads = _served(source, options, name, described, seed)
        handles, saveables = tables.make(served)
        built.tables[name] = served, reads
        built.saveables.extend(saveables)
        mapped.update((rewriting.handle_name(served, field), handle) for field, handle in handles._asdict().items()
                      if handle is not None)
    if isinstance(options.unseen, dict):
        unseen.check_names(options.unseen, [*built.tables, *source.tables, *described])
    _add_variables(source, subgraph, model.parts, built, mapped)
    stand_ins = {}
    fed: Dict[str, tf.Tensor] = {}
    with tf.name_scope("serving_inputs/"):
        for name, one in model.inputs.items():
            fed[name] = tf.placeholder(one.dtype, one.shape, name=name)
            stand_ins[one.tensor] = "input_of_served/" + name
            mapped[stand_ins[one.tensor]] = fed[name]
        for number, (tensor, value) in enumerate(model.constants.items()):
            if tensor in stand_ins:
                raise ValueError("sok1x.serving.export_saved_model: constants: got tensor '{}', expected none that is "
                                 "an input".format(tensor))
            stand_ins[tensor] = "constant_of_served/{}".format(number)
            mapped[stand_ins[tensor]] = tf.constant(value, name="constant", dtype=_dtype_of(by_name, tensor))
    graph_def = rewriting.rewritten(model.graph_def, subgraph, {name: one for name, (one, _) in built.tables.items()},
                                    stand_ins)
    wanted = {name: stand_ins.get(tensor, tensor) for name, tensor in model.outputs.items()}
    found = _import(graph_def, mapped, list(wanted.values()) + initializers)
    outputs = dict(zip(wanted, found))
    built.signatures[_DEFAULT] = tf.saved_model.predict_signature_def(fed, outputs)
    graph = tf.get_default_graph()
    built.assets.extend(graph.get_tensor_by_name(name) for name in model.assets
                        if subgraphs.reference(name).node in names)
    return built._replace(main_op=tf.group(*found[len(wanted):], name="init") if initializers else None)


def _dtype_of(by_name: Dict[str, Any], tensor: str) -> Any:
    node = by_name.get(subgraphs.reference(tensor).node)
    return None if node is None or "dtype" not in node.attr else tf.as_dtype(node.attr["dtype"].type)


def _import(graph_def: graph_pb2.GraphDef, mapped: Dict[str, Any], wanted: List[str]) -> List[Any]:
    """Imports nodes, and returns what is named: what is mapped itself, tensors, or ops."""
    here = [name for name in wanted if name not in mapped]
    known = {one if ":" in one else one + ":0": tensor for one, tensor in mapped.items()}
    named = {text for node in graph_def.node for text in node.input}
    used = {name: tensor for name, tensor in known.items()
            if name in named or name[:-2] in named}
    found = iter(tf.import_graph_def(graph_def, used, here, name="") or ())
    return [mapped[name] if name in mapped else next(found) for name in wanted]


def _add_variables(source: sources.Source, subgraph: subgraphs.Subgraph, cut: Dict[str, parts.Part], built: Built,
                   mapped: Dict[str, Any]) -> None:
    """The dense variables, as they were named."""
    nodes = rewriting.local_variables(subgraph)
    reader = source.dense() if nodes else None
    for name, node in nodes.items():
        assert reader is not None
        part = cut.get(name)
        shape = parts.shape_of(reader, name, part)
        for table in list(source.tables):
            if name == table or (name.startswith(table + "/") and shape is None):
                raise ValueError("sok1x.serving.export_saved_model: the outputs read variable '{}' of table '{}', "
                                 "which is a rank's own: look rows up by a layer or sok1x.lookup_sparse".format(
                                     name, table))
        if shape is None:
            raise MismatchError("{} has no variable '{}'{}, which the outputs need; it has {}.".format(
                source.where, name, "" if part is None else ", {} from {} on of '{}' {}".format(
                    part.shape, part.offset, part.whole, part.whole_shape),
                ", ".join("'{}' {}".format(*one) for one in sorted(reader.shapes.items())) or "none"))
        dtype = tf.as_dtype(node.attr["dtype"].type)
        saved = parts.dtype_of(reader, name, part)
        if saved != dtype:
            raise MismatchError("Variable '{}' is {} in {}, and {} in the model.".format(
                name, saved.name, source.where, dtype.name))
        variable = tf.Variable(tf.zeros(shape, dtype), trainable=False, name=name,
                               use_resource=node.op == "VarHandleOp")
        if not tf.TensorShape(node.attr["shape"].shape).is_compatible_with(shape):
            raise MismatchError("Variable '{}' is of shape {} in {}, and of {} in the model.".format(
                name, shape, source.where, tf.TensorShape(node.attr["shape"].shape)))
        built.variables[name] = part
        built.saveables.append(variable)
        mapped[name + ":0"] = variable.handle if node.op == "VarHandleOp" else variable._ref()
