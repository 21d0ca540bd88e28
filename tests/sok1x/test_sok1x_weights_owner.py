"""Whose shards a list of Keras' weights has, noted in an index."""
import types

import numpy as np
import pytest

from sok1x.core.frameworks import weights_owner

TABLE = types.SimpleNamespace(index=[object()], table=types.SimpleNamespace(name="ads"))


def index(rows):
    """Of 8 places, of which so many have rows."""
    made = np.full([8, 2], -1, np.int64)
    made[:rows] = np.arange(rows).reshape(-1, 1)
    return made


def in_world(monkeypatch, world):
    """To this module alone: the process may have an executor, which asks its launch too."""
    monkeypatch.setattr(weights_owner, "launch", types.SimpleNamespace(current=lambda: world))


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
    assert values[0] is rows and (given == index(5)).all() and (values[1][:7] == given[:7]).all()
    assert values[1][7, 0] not in (-1, 0) and (values[1][:, 1] == given[:, 1]).all()
    back = expected(values)
    assert back[0] is rows and (back[1][:7] == given[:7]).all() and back[1][7].tolist() == [0, -1]
    assert (noted(back)[1] == values[1]).all()


@pytest.mark.parametrize("rank, size", [(0, 2), (1, 3), (0, 1)])
def test_what_another_has_given(monkeypatch, rank, size):
    on(monkeypatch, rank, size)
    values = noted([np.ones(3), index(5)])
    on(monkeypatch, 1, 2)
    with pytest.raises(ValueError, match="'ads'.* on rank {} of {}, expected that of rank 1 of 2".format(rank, size)):
        expected(values)


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
