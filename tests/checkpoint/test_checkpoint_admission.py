"""Keys without a row are counted on after a restore: a job that has not ended is the oracle, and NumPy."""
import collections
import os
import pickle

import admission_model
import made_checkpoints
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from admission_model import AFTER, DRAWN, HALF, HALVES, TIGHT, WHOLE, WIDE
from ranks import run_ranks

import sok1x as sok
from sok1x import launch
from sok1x.checkpoint import __main__ as command
from sok1x.checkpoint.errors import DamagedError
from sok1x.checkpoint.files import manifest
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.reading import TableSource, Wanted
from sok1x.cuda_kernels import admission
from sok1x.graph_ops.stores.forgetting import Forgetting

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_admission.py")


def together(of_ranks, name):
    """[keys with a row on any rank] after each step."""
    return [set().union(*(found[name] for found in step)) for step in zip(*of_ranks)]


def counted(seed):
    """[keys that have been asked for often enough] after each step after the save, by exact counts."""
    counts, found = collections.Counter(), []
    for step in range(WHOLE):
        counts.update(admission_model.batch(seed, TIGHT, step).tolist())
        found.append({key for key, count in counts.items() if count >= AFTER})
    return found[HALF:]


def test_a_job_that_goes_on_admits_keys_as_one_that_has_not_ended(tmp_path, seed):
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(sok.Init())
    job_seed, one = launch.current().arguments["seed"], str(tmp_path / "one")
    whole = admission_model.trained(one, job_seed, seed, 0, 1)
    assert admission_model.restored(one, job_seed, seed, 0, 1) == whole
    restores_into_other_tables(one)
    finished = run_ranks(2, PROGRAM, tmp_path, job_seed, seed)
    assert finished.out.count("ok") == 2, str(finished)
    from_one, of_two = zip(*(pickle.loads((tmp_path / "{}.pickle".format(rank)).read_bytes()) for rank in range(2)))
    from_two = admission_model.restored(str(tmp_path / "several"), job_seed, seed, 0, 1)
    for name in (WIDE, DRAWN):  # no two keys share their places; a draw depends on no rank
        assert together(from_one, name) == together([whole], name), name
        assert together([from_two], name) == together(of_two, name), name
    # Where keys share places none is later than it would have been, though another number of keys share them then.
    assert all(one >= other for one, other in zip(together(from_one, TIGHT), counted(seed)))
    assert all(one >= other for one, other in zip(together([from_two], TIGHT), together(of_two, TIGHT)))
    # Of counters that are too full together the first lookup's new keys too are taken for others no more than stated.
    assert max(admission_model.too_full(str(tmp_path / "full"))) < 0.23


def restores_into_other_tables(folder):
    """Into tables that count in another way, or not, or draw: from zero, with all rows."""
    with tf.Graph().as_default(), tf.Session() as session:
        model = admission_model.Model({WIDE: dict(admit_after=AFTER, admission_counters=1 << 10), TIGHT: {},
                                       HALVES: dict(evict_strategy="lru", max_capacity=1000),
                                       DRAWN: dict(admit_after=2, filter_ratio=0.3, admission_counters=8)})
        manager = sok.CheckpointManager(folder)
        assert manager.restore(session) == HALF
        assert not any(session.run(model.tables[name].forgetting["sketch"]).any() for name in (WIDE, DRAWN))
        table = Checkpoint(os.path.join(folder, "model.ckpt-{}".format(HALF))).table(model.tables[TIGHT].table.name)
        assert len(model.with_rows(session)[TIGHT]) == sum(table.counts)


WIDTH, LEAST, NAME = 1 << 12, 300, "user/id"  # so of 16 bits
FORGETTING = Forgetting(admit_after=LEAST, sketch_width=WIDTH)


def made(random, ranks, counted, forgetting=FORGETTING):
    """A table with random counters on all ranks."""
    table = made_checkpoints.hash_table(random, NAME, ranks, 100, 4, 30, ())
    width, bits = table.admission = forgetting.sketch_shape
    words = admission.words_of(width, bits) if width else 0
    table.parts["admission"] = [np.concatenate([[1000 + rank], [counted][:words], random.randint(
        -2 ** 63, 2 ** 63 - 1, max(0, words - 1), np.int64)]).astype(np.int64) for rank in range(ranks)]
    return table


def loaded(folder, rank, ranks, forgetting=FORGETTING):
    """(source, all of a rank's admission, or None)."""
    rows = {"rows": ("float32", (4,))}
    source = TableSource(Checkpoint(folder), NAME, rank, ranks, Wanted(4, 100, True, "int64", rows,
                                                                       forgetting=forgetting))
    source.check()
    chunks = source.admission()
    return source, None if chunks is None else np.concatenate(list(chunks))


@pytest.mark.parametrize("full", [False, True])
def test_on_other_ranks_no_key_has_been_counted_less_often(tmp_path, seed, full):
    random, due = np.random.RandomState(seed), admission.looked_at(WIDTH)
    for saved in (1, 2, 4):
        table = made(random, saved, due - 1 if full else due // 5)
        folder = made_checkpoints.save(tmp_path, [table], saved)
        parts = np.array(table.parts["admission"])
        for ranks in (1, 2, 3, 4):
            for rank in range(ranks):
                source, found = loaded(folder, rank, ranks)
                of_shards = parts[source.shards]
                counters = of_shards[:, 2:].copy().view(np.uint16).max(axis=0)
                # As many ranks' counters may be too many: whoever loads them looks.
                assert found[:2].tolist() == [of_shards[:, 0].max(), of_shards[0, 1] if len(of_shards) == 1 else due]
                np.testing.assert_array_equal(found[2:].copy().view(np.uint16), counters)


def test_what_is_not_of_this_kind_begins_anew(tmp_path, seed, capsys):
    random = np.random.RandomState(seed)
    draws = Forgetting(filter_ratio=0.5)
    folder = made_checkpoints.save(tmp_path, [made(random, 2, 5)], 1)
    for other in (None, Forgetting(), draws, FORGETTING._replace(sketch_width=2 * WIDTH),
                  FORGETTING._replace(admit_after=3, sketch_width=2 * WIDTH)):
        assert loaded(folder, 0, 2, other)[1] is None
    assert loaded(folder, 0, 2, FORGETTING._replace(admit_after=500))[1] is not None
    assert command.main(["show", folder]) == command.main(["verify", folder]) == 0
    told = capsys.readouterr().out
    assert "  admission   4 x 4,096 counters of 16 bits on each rank" in told
    assert "and 32,776 (admission's counters)" in told
    assert manifest.read(folder).version == 2
    of_draws = made_checkpoints.save(tmp_path, [made(random, 2, 5, draws)], 2)
    assert loaded(of_draws, 0, 1, draws)[1].tolist() == [1001] and loaded(of_draws, 0, 1)[1] is None
    assert loaded(of_draws, 1, 2, draws)[1].tolist() == [1001]
    # As it has been saved so far.
    old = made_checkpoints.save(tmp_path, [made_checkpoints.hash_table(random, NAME, 2, 100, 4, 30, ())], 3)
    assert manifest.read(old).version == 1 and loaded(old, 0, 2)[1] is None
    assert command.main(["show", old]) == 0 and "admission" not in capsys.readouterr().out


@pytest.mark.parametrize("ranks", [1, 2])
def test_damage_is_found_by_the_check(tmp_path, seed, ranks):
    folder = made_checkpoints.save(tmp_path, [made(np.random.RandomState(seed), 2, 5)])
    path = made_checkpoints.path_of(folder, NAME, 0, 2, "admission")
    with open(path, "r+b") as file:
        file.seek(-9000, os.SEEK_END)
        byte = file.read(1)
        file.seek(-9000, os.SEEK_END)
        file.write(bytes([byte[0] ^ 4]))
    with pytest.raises(DamagedError, match=r"user%2Fid\.0-of-2\.admission \(table 'user/id'\) is damaged"):
        loaded(folder, 0, ranks)
    assert command.main(["verify", folder]) == 1
    assert loaded(folder, 0, ranks, None)[1] is None  # who does not need it


@pytest.mark.parametrize("value", [[WIDTH, 16, 1], [WIDTH, 12], [WIDTH + 1, 16], [4, 8], [0, 16], [-WIDTH, 16],
                                   [2 ** 41, 16], [WIDTH, True], "16", None])
def test_a_manifest_with_counters_that_cannot_be(tmp_path, seed, value):
    folder = made_checkpoints.save(tmp_path, [made(np.random.RandomState(seed), 1, 5)])
    whole = manifest.read(folder)
    tables = {name: table._replace(admission=value) for name, table in whole.tables.items()}
    manifest.write(folder, whole._replace(tables=tables))
    with pytest.raises(DamagedError, match="admission"):
        manifest.read(folder)
