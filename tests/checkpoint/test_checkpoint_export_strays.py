"""Exports of tables in which several ranks had one key, as local lookups leave them: each key once, its own row."""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from sok1x.checkpoint.commands import export
from sok1x.checkpoint.files import folders, manifest, writing
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.table_rows import TableRows

# Of two ranks: keys, and what their rows are made of. 2 is rank 0's; 5 is rank 1's, which has it not; 8 and 9 as it is.
SHARDS = [([0, 2, 5, 8], 1.0), ([9, 2, 1], 7.0)]
EXPECTED = {0: 1.0, 2: 1.0, 5: 1.0, 8: 1.0, 9: 7.0, 1: 7.0}


@pytest.fixture
def folder(tmp_path):
    folder = str(tmp_path / "model.ckpt-1")
    os.mkdir(folder)
    token, outcomes = folders.new_token(), []
    for rank, (keys, value) in enumerate(SHARDS):
        sink, n = writing.TableSink(folder, token, 1), len(keys)
        sink.begin(dict(table="t", rank=rank, ranks=2, rows=16, dim=2, used=n, use_hashtable=True, key_dtype="int64",
                        parts={"keys": dict(dtype="int64", row_shape=[], count=n),
                               "rows": dict(dtype="float32", row_shape=[2], count=n)}))
        sink.write("keys", np.array(keys))
        sink.write("rows", np.full([n, 2], value, np.float32))
        sink.end()
        outcomes.append([sink.outcome])
    manifest.write(folder, writing.assemble(token, 1, outcomes, {}))
    return folder


def test_npz(folder, tmp_path):
    output = str(tmp_path / "t.npz")
    export.export(folder, None, "npz", output)
    got = np.load(output)
    assert dict(zip(got["keys"].tolist(), got["values"][:, 0].tolist())) == EXPECTED
    assert len(got["keys"]) == TableRows(Checkpoint(folder), "t").count == len(EXPECTED)


@pytest.mark.parametrize("compact", [False, True])
def test_tensorflow(folder, tmp_path, compact):
    output = str(tmp_path / "t")
    export.export(folder, None, "tensorflow", output, compact=compact)
    reader = tf.train.NewCheckpointReader(output)
    rows = reader.get_tensor("t")
    keys = reader.get_tensor("t/keys") if compact else np.arange(len(rows))
    assert len(keys) == (len(EXPECTED) if compact else 10)
    assert {key: row for key, row in zip(keys.tolist(), rows[:, 0].tolist()) if row} == EXPECTED
