"""CheckpointManager: whose session it is given."""
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok


def test_a_session_of_another_graph_is_refused(tmp_path):
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        manager = sok.CheckpointManager(str(tmp_path / "checkpoints"))
        assert manager.restore(session) is None
    with tf.Graph().as_default():
        table = sok.Variable([[1.0, 2.0]], name="table")
        with tf.Session() as session:
            session.run(table.initializer)
            for call in (lambda: manager.restore(session), lambda: manager.save(session, 1)):
                with pytest.raises(ValueError, match="session: got one of another graph than that in"):
                    call()
    assert not (tmp_path / "checkpoints").exists() or not list((tmp_path / "checkpoints").iterdir())
