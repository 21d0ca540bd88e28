"""Sessions of the library's own see the GPUs that the program's do: TensorFlow 1.15 takes others for an error."""
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint.session import talk
from sok1x.core.tables import own_sessions


def test_they_see_what_the_programs_sessions_see(tmp_path, monkeypatch):
    monkeypatch.setattr(own_sessions, "_seen", "")
    monkeypatch.setattr(talk, "_talk", None, raising=False)
    options, made, config = tf.GPUOptions(visible_device_list="3"), [], own_sessions.config
    with tf.Graph().as_default():
        table = sok.DynamicVariable(2, "ones", name="seen")
        monkeypatch.setattr(own_sessions, "config", lambda *args, **kw: made.append(config(*args, **kw)) or made[-1])
        with tf.Session(config=tf.ConfigProto(gpu_options=options)) as session:
            session.run(sok.Init(global_batch_size=1))
            session.run(tf.global_variables_initializer())
            sok.dump(str(tmp_path / "dumped"), table, session=session)
            sok.CheckpointManager(str(tmp_path / "saved")).save(session, 1)
    assert {one.gpu_options.visible_device_list for one in made} == {config().gpu_options.visible_device_list} == {"3"}


def test_a_session_at_hand_may_be_older(monkeypatch):
    monkeypatch.setattr(own_sessions, "_seen", "")
    options = tf.GPUOptions(visible_device_list="2")
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(gpu_options=options)) as session:
        monkeypatch.setattr(own_sessions, "_seen", "")
        assert own_sessions.config(session).gpu_options.visible_device_list == "2"
        assert own_sessions.config().gpu_options.visible_device_list == ""
