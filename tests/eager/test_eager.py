"""Tables in eager execution and in tf.functions, on one rank and on several, as TensorFlow's own variables."""
import os
import re

import pytest
import tensorflow
from ranks import run_ranks

pytestmark = pytest.mark.skipif(tensorflow.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")
HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [1, 2])
def test_as_tensorflows_own(ranks, seed, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_eager.py"), seed, tmp_path / "dump", timeout=900)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_tables_that_grow_forget_or_have_a_cache(ranks, seed, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_growing.py"), seed, tmp_path, timeout=900)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_with_different_numbers_of_batches(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_even_loops.py"), seed, timeout=300)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_gradient_of_several_lookups_keeps_the_rows_of_all(ranks):
    finished = run_ranks(ranks, os.path.join(HERE, "program_held_rows.py"), timeout=120)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_dense_gradient_moves_no_other_keys_rows(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_dense_gradients.py"), tmp_path, timeout=120)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_keys_that_get_rows_of_others_begin_with_new_slots(ranks):
    finished = run_ranks(ranks, os.path.join(HERE, "program_new_rows.py"), timeout=120)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_dense_features_of_several_columns(ranks):
    finished = run_ranks(ranks, os.path.join(HERE, "program_dense_features.py"), timeout=120)
    assert finished.out.count("ok") == ranks


def test_gradients_that_have_been_summed_are_not_summed_once_more():
    finished = run_ranks(2, os.path.join(HERE, "program_summed_before.py"), timeout=120)
    assert finished.out.count("ok") == 2


def test_threads_and_functions_do_not_meet_each_other():
    finished = run_ranks(2, os.path.join(HERE, "program_two_threads.py"), timeout=120)
    assert finished.out.count("ok") == 2


def test_threads_note_and_run_at_once():
    assert run_ranks(0, os.path.join(HERE, "program_at_once.py"), timeout=120).out.count("ok") == 1


def test_a_summary_is_refused_as_it_would_be_an_op_that_nobody_runs():
    finished = run_ranks(0, """if True:
        import tensorflow as tf
        tf.compat.v1.enable_v2_behavior()
        import sok1x as sok
        sok.init()
        try:
            sok.summary(sok.Variable([[1.0]], name="ads"))
        except RuntimeError as error:
            print(error)
        """, fresh=True)
    assert finished.out.startswith("sok1x.summary makes an op in a tf.Graph: got eager execution") and \
        "'ads/rows_in_use'" in finished.out


def test_ranks_step_in_a_branch_together():
    finished = run_ranks(2, os.path.join(HERE, "program_branched_steps.py"), timeout=120)
    assert finished.out.count("ok") == 2


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_dumps_have_all_rows_that_have_changed(ranks):
    finished = run_ranks(ranks, os.path.join(HERE, "program_changes.py"), timeout=900)
    assert finished.out.count("ok") == ranks


def test_checkpoints_on_another_number_of_ranks_horovod_and_loss_scales(seed, tmp_path):
    """Two ranks train and save, one goes on, and two again."""
    for ranks, rounds in ((2, "0"), (1, "1"), (2, "2")):
        finished = run_ranks(ranks, os.path.join(HERE, "program_saving.py"), seed, tmp_path, rounds, timeout=900)
        assert finished.out.count("ok") == ranks


def test_clipping_by_norms_of_all_ranks_rows():
    finished = run_ranks(2, os.path.join(HERE, "program_clipping.py"), timeout=900)
    assert finished.out.count("ok") == 2


KEYS = "tf.constant([[[1]]], tf.int64)"
# Calls that both ranks have made once go without Python from then on.
WARM = """
with tf.GradientTape(persistent=True) as tape:
    losses = [tf.reduce_sum(layer({keys}, training=True)) for layer in layers]
    losses += [tf.reduce_sum(sok.lookup_sparse(one, tf.sparse.from_dense([[1]]), combiners="sum")) for one in tables]
for loss, of in zip(losses, [layer.embedding_variable for layer in layers] + tables):
    tape.gradient(loss, of)
""".format(keys=KEYS)


@pytest.mark.parametrize("call, names, alike", [
    ("layers[rank]({}, training=True)".format(KEYS), ("ads/lookup (table ads", "items/lookup (table items"), False),
    (WARM + "layers[rank]({}, training=True)".format(KEYS),
     ("ads/lookup (table ads", "items/lookup (table items"), False),
    (WARM + "tape.gradient(losses[rank], layers[rank].embedding_variable)",
     ("lookup_gradient (table ads", "lookup_gradient (table items"), False),
    (WARM + "tape.gradient(losses[0], layers[0].embedding_variable) if rank == 0 else layers[1]({})".format(KEYS),
     ("lookup_gradient (table ads", "items/lookup (table items"), False),
    (WARM + "sok.lookup_sparse(tables[rank], tf.sparse.from_dense([[1]]), combiners='sum')",
     ("lookup_sparse/lookup (table films)", "lookup_sparse/lookup (table songs)"), False),
    ("sok.lookup_sparse(tables[0], tf.sparse.from_dense([[1]]), combiners=['sum', 'mean'][rank])",
     ("lookup_sparse/lookup (table films)",) * 2, True)],
    ids=["layers", "layers again", "gradients", "a gradient and a layer", "tables", "combiners"])
def test_two_ranks_that_call_differently(call, names, alike):
    program = """
import tensorflow as tf
tf.compat.v1.enable_v2_behavior()
import sok1x as sok
from sok1x import launch
sok.init()
rank = launch.current().rank
layers = [sok.All2AllDenseEmbedding(8, 2, 1, 1, name=name) for name in ("ads", "items")]
tables = [sok.Variable([[1.0], [2.0]], name=name) for name in ("films", "songs")]
""" + call
    finished = run_ranks(2, program, check=False, timeout=120, env={"SOK1X_DEADLOCK_SECONDS": "100000"})
    assert finished.code != 0
    for rank, name in enumerate(names):
        waits = "Rank {} waits in op '{}[^']*', which rank {} did not announce".format(rank, re.escape(name), 1 - rank)
        assert re.search(waits, finished.err), str(finished)
    assert ("Those of one name differ in their arguments" in finished.err) == alike, str(finished)


def test_what_runs_at_once_is_refused_in_a_functions_body():
    finished = run_ranks(1, os.path.join(HERE, "program_in_function.py"), timeout=120)
    assert finished.out.count("ok") == 1
