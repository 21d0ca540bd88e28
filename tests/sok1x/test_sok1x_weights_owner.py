"""Whose shards a list of Keras' weights has, noted in an index."""
import types

import numpy as np
import pytest

from sok1x.core.frameworks import placement_notes, weights_owner
from sok1x.graph_ops.stores.placement import Placement

TABLE = types.SimpleNamespace(index=[object()], table=types.SimpleNamespace(name="ads", placement=Placement()))


def index(rows):
    """Of 8 places, of which so many have rows."""
    made = np.full([8, 2], -1, np.int64)
    made[:rows] = np.arange(rows).reshape(-1, 1)
    return made


def in_world(monkeypatch, world):
    """To this module alone: the process may have an executor, which asks its launch too."""
    for module in (weights_owner, placement_notes):
        monkeypatch.setattr(module, "launch", types.SimpleNamespace(current=lambda: world))


def on(monkeypatch, rank, size):
    in_world(monkeypatch, types.SimpleNamespace(rank=rank, size=size))


def noted(values):
    return weights_owner.noted([TABLE], [TABLE, TABLE.index[0]], values)


def expected(values):
    return [value for _, value in weights_owner.expect_own([TABLE], list(zip([TABLE, TABLE.index[0]], values)))]


@pytest.mark.parametrize("rank, size", [(0, 1), (1, 2), (65534, 65535)])
def test_what_is_given_back(monkeypatch, rank, size):
    on(monkeypatch, rank, size)
    rows, given = np.ones(3), index(5)
    values = noted([rows, given])
    same = 7 if size == 1 else 6  # before the notes
    assert values[0] is rows and (given == index(5)).all() and (values[1][:same] == given[:same]).all()
    assert not np.isin(values[1][same:, 0], (-1, 0)).any() and (values[1][:, 1] == given[:, 1]).all()
    back = expected(values)
    assert back[0] is rows and (back[1][:same] == given[:same]).all()
    assert back[1][same:].tolist() == [[0, -1]] * (8 - same)
    assert (noted(back)[1] == values[1]).all()


@pytest.mark.parametrize("rank, size", [(0, 2), (1, 3), (0, 1)])
def test_what_another_has_given(monkeypatch, rank, size):
    on(monkeypatch, rank, size)
    values = noted([np.ones(3), index(5)])
    on(monkeypatch, 1, 2)
    with pytest.raises(ValueError, match="'ads'.* on rank {} of {}, expected that of rank 1 of 2".format(rank, size)):
        expected(values)


@pytest.mark.parametrize("then, now, words", [
    (None, 1, r"'ads' on rank 1: .*\(by key\).* expected them all rows on rank 1"),
    (0, None, r"'ads' on rank 1: .*\(all rows on rank 0\).* expected them by key"),
    (65534, 1, r".*\(all rows on rank 65534\).* expected them all rows on rank 1")])
def test_rows_that_were_dealt_out_otherwise(monkeypatch, then, now, words):
    on(monkeypatch, 1, 2)
    monkeypatch.setattr(TABLE.table, "placement", Placement(then))
    values = noted([np.ones(3), index(5)])
    assert (expected(values)[1][:6] == index(5)[:6]).all()
    earlier = [values[0], np.where(np.arange(8)[:, None] == 6, index(5), values[1])]  # of a sok1x without such notes
    monkeypatch.setattr(TABLE.table, "placement", Placement(now))
    with pytest.raises(ValueError, match="table " + words):
        expected(values)
    assert (expected(earlier)[1][:7] == index(5)[:7]).all()
    full = noted([np.ones(3), index(7)])  # there is place for one note
    assert (expected(full)[1][:7] == index(7)[:7]).all()


def test_what_has_no_note(monkeypatch):
    """Of an earlier sok1x, or of a table that is full, or of two variables that are no index."""
    on(monkeypatch, 1, 2)
    for rows in (0, 5, 8):
        assert (expected([np.ones(3), index(rows)])[1] == index(rows)).all()
    assert (noted([np.ones(3), index(8)])[1] == index(8)).all()
    in_world(monkeypatch, None)
    assert (noted([np.ones(3), index(5)])[1] == index(5)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_was_averaged_is_taken(monkeypatch, dtype):
    on(monkeypatch, 1, 2)
    lists = [noted([np.ones(3), index(5)]) for _ in range(2)]
    values = expected([np.mean(both, axis=0).astype(dtype) for both in zip(*lists)])
    assert (values[1][:5] == index(5)[:5]).all() and (values[1][5:, 1] == -1).all() and (values[1][5:, 0] == 0).all()
