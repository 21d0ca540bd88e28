"""Configs of operations: every one is typed and explained, and comes out of a graph as it went in."""
import importlib
import pkgutil
from typing import NamedTuple, Optional, Tuple

import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import graph_ops
from sok1x.graph_ops.bridge import configs, registry
from sok1x.graph_ops.exchanges import choice
from sok1x.graph_ops.stores import store
from sok1x.graph_ops.stores.table import DIRECT, HASHED, Initializer, Table
from sok1x.graph_ops.stores.table_variables import OWN, STAMPS, Held, TableVariables


class Inner(NamedTuple):
    name: str
    numbers: Tuple[int, ...]


class Outer(NamedTuple):
    inner: Inner
    flag: Optional[bool]
    text: str = "ü"


class Op:
    """As much of a tf.Operation as is asked."""

    def __init__(self, text):
        self._text = text

    def get_attr(self, name):
        assert name == "config"
        return self._text.encode()


@pytest.mark.parametrize("config", [
    Outer(Inner("a", ()), None), Outer(Inner("", (1, 2)), True, "b\n"), Outer(Inner('"', (-2 ** 63,)), False, "")])
@pytest.mark.parametrize("place", [
    configs.Place(3, "p"), configs.Place(0, "q", (7, 2 ** 64 - 1), "operation 'x'", 2)])
def test_what_is_encoded_comes_back(config, place):
    text = configs.encode(config, place)
    assert configs.decode(Outer, text) == (config, place)
    assert configs.of_op(Outer, Op(text)) == config and configs.place_of(Op(text)) == place
    assert configs.encode(config, place) == text  # equal bytes, by which nodes are hashed


def test_no_config():
    assert configs.decode(configs.NoConfig, configs.encode(configs.NoConfig(), configs.Place(0, ""))) == (
        configs.NoConfig(), configs.Place(0, ""))


def operations():
    for module in pkgutil.walk_packages(graph_ops.__path__, "sok1x.graph_ops."):
        if not module.name.endswith("._bridge"):  # TensorFlow's to load
            importlib.import_module(module.name)
    return {name: operation for name, operation in registry._operations.items() if not name.startswith("test.")}


def test_every_operation_explains_its_config_and_has_its_name_from_its_file():
    found = operations()
    assert len(found) > 25
    for name, operation in found.items():
        assert type(operation).__module__ == "sok1x.graph_ops." + name.rpartition(".")[0], name
        kind = operation.Config
        explained = (kind.__doc__ or "").replace(",", " ").replace(":", " ").split()
        assert issubclass(kind, tuple) and [field for field in kind._fields if field not in explained] == [], name
        if operation.communicates and name.split(".")[1] not in ("gather_bytes",):
            assert "label" in kind._fields, name  # what the plan of collectives compares


@pytest.mark.parametrize("kind", [HASHED, DIRECT])
def test_what_an_op_holds_has_names(kind):
    table = Table("t", 8, 2, kind, "int64", Initializer("normal", 0.0, 0.5))
    index = {"index": "I", "count": "C"} if kind == HASHED else {}
    variables = TableVariables(table, "R", "S", "K", **index)
    held, handles = variables.resources(*OWN, *STAMPS, slots={"m": "M"})
    assert handles == ["R"] + list(index.values()) + ["S", "K", "M"]
    assert held.pick(handles, *STAMPS) == ["S", "K"]
    opened = store.KINDS[kind](None, table, None, held, handles)
    assert (opened.rows, opened.stamps, opened.clock, opened.slots) == ("R", "S", "K", {"m": "M"})
    assert (opened.index, opened.count) == (("I", "C") if index else (None, None))
    partly = store.KINDS[kind](None, table, None, Held(STAMPS), ["S", "K"])
    assert partly.rows is None and partly.clock == "K" and partly.slots == {}


def test_a_table_does_not_change():
    with tf.Graph().as_default():
        shard = sok.EmbeddingVariable(8, 4, use_hashtable=False)
    for target, field in ((shard.table, "rows"), (shard.table_variables, "index")):
        with pytest.raises(AttributeError):
            setattr(target, field, 1)
    assert shard.table == Table("EmbeddingVariable", 8, 4, DIRECT, "int64", shard.table.initializer)
    assert shard.table_variables.index is None


class World:
    def __init__(self, size):
        self.size = size


def test_exchanges_have_numbers_of_their_own_and_are_chosen_in_one_place():
    assert len({exchange.number for exchange in (choice.ALONE, choice.ALL2ALL, choice.REDUCE_SCATTER)}) == 3
    one, two = World(1), World(2)
    assert choice.of_keys(one) is choice.ALONE and choice.of_keys(two) is choice.ALL2ALL
    for wanted, prepared in (("auto", choice.ALL2ALL), ("all2all", choice.ALL2ALL),
                             ("reduce_scatter", choice.REDUCE_SCATTER)):
        assert choice.to_prepare(one, wanted) is choice.to_run(one, wanted, 4, None) is choice.ALONE
        assert choice.to_prepare(two, wanted) is prepared
    for exchange in choice.ALL2ALL, choice.REDUCE_SCATTER:
        assert choice.of_route(two, [exchange.number]) is exchange and choice.of_route(one, []) is choice.ALONE
