"""TensorFlow's hooks and Keras' own ways to save on several ranks, likewise: see program_stock.py."""
import datetime
import os
import shutil
import tempfile
import time

import numpy as np
import tensorflow.compat.v1 as tf
from stock_model import DIM, KEYS, Model, main, refused

import sok1x as sok
from sok1x.checkpoint import CheckpointError
from sok1x.checkpoint.commands import verify
from sok1x.checkpoint.errors import MismatchError


def clocks(folder, rank, ranks):
    """Checkpoints by time, where the ranks' clocks and runs differ."""
    for last in (30, 60):
        model = Model(rank, ranks, start=False)
        with model.graph.as_default():
            seen = []
            hooks = [sok.InitHook(global_batch_size=1), tf.train.StopAtStepHook(last_step=last)]
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=folder, save_checkpoint_secs=0.02, hooks=hooks, save_summaries_steps=None,
                    log_step_count_steps=None) as session:
                while not session.should_stop():
                    session.run(model.step)
                    time.sleep(0.015 * rank)  # so that 0.02 s are over every few steps, however fast they are
                    seen.append(session.run_step_fn(lambda step_context: step_context.session.run(model.number))
                                if not session.should_stop() else last)
        assert seen[0] == last - 29 and seen[-1] == last
        steps = [int(path.split("-")[-1]) for path in
                 tf.train.get_checkpoint_state(folder).all_model_checkpoint_paths]
        assert steps[-1] == last and len(steps) == 5, steps
    final = Model(rank, ranks)
    final.saver().restore(final.session, tf.train.latest_checkpoint(folder))
    final.check(60)

    mine = tempfile.mkdtemp()  # as an Estimator without model_dir has it
    model = Model(rank, ranks, start=False)
    with model.graph.as_default():
        hooks = [sok.InitHook(global_batch_size=1), tf.train.StopAtStepHook(last_step=4)]
        with tf.train.MonitoredTrainingSession(checkpoint_dir=mine, hooks=hooks, save_checkpoint_secs=0.01) as session:
            while not session.should_stop():
                session.run(model.step)
    final.saver().restore(final.session, tf.train.latest_checkpoint(mine))
    final.check(4)
    shutil.rmtree(mine)


def keras(folder, rank, ranks):
    """Keras' weights, and tf.train.Checkpoint."""
    def build():
        tf.keras.backend.clear_session()
        with tf.keras.backend.get_session().as_default() as session:
            inputs = tf.keras.Input([1, 1], dtype="int64")
            layer = sok.All2AllDenseEmbedding(KEYS, DIM, 1, 1)
            # Dense weights are rank 0's, and here not trained: nothing in this model makes them equal on all ranks.
            head = tf.keras.layers.Dense(1, kernel_initializer="ones", trainable=False)
            model = tf.keras.Model(inputs, head(tf.keras.layers.Flatten()(layer(inputs, training=True))))
            session.run(sok.Init(global_batch_size=1))
            return model
    keys = np.arange(KEYS).reshape(-1, 1, 1)
    model = build()
    model.compile("sgd", "mse")
    model.fit(keys[rank::ranks], np.ones([KEYS // ranks, 1]), epochs=2, batch_size=KEYS, verbose=0)
    wanted = model.predict(keys, batch_size=KEYS)
    model.save_weights(folder + "/weights.h5")
    for save in model.save, lambda path: tf.keras.models.save_model(model, path):
        for path in folder + "/model.h5", folder + "/model":
            refused(CheckpointError, lambda: save(path), "save_weights")
    with tf.keras.backend.get_session().as_default():
        refused(RuntimeError, lambda: tf.train.Checkpoint(table=model.layers[1].embedding_variable).save(folder + "/c"),
                "one rank's shard")
    weights = model.get_weights()
    model.set_weights(weights)
    os.makedirs(folder, exist_ok=True)
    np.savez(folder + "/{}.npz".format(rank), *weights)
    yield
    with np.load(folder + "/{}.npz".format(1 - rank)) as file:
        weights = [file["arr_{}".format(place)] for place in range(len(file.files))]
    refused(ValueError, lambda: model.set_weights(weights), "on rank {} of 2, expected that of rank {}".format(
        1 - rank, rank))
    np.testing.assert_array_equal(model.predict(keys, batch_size=KEYS), wanted)
    model = build()
    assert np.abs(model.predict(keys, batch_size=KEYS) - wanted).max() > 1e-3
    model.load_weights(folder + "/weights.h5")
    np.testing.assert_array_equal(model.predict(keys, batch_size=KEYS), wanted)
    refused(MismatchError, lambda: model.load_weights(folder + "/none.h5"), "none.h5")


def one_model_dir(folder, rank, ranks):
    """Horovod's recipe for Estimators: only rank 0 has a model_dir, the others a temporary one. And one for all."""
    os.makedirs(folder, exist_ok=True)
    made = tempfile.mkdtemp()
    model = Model(rank, ranks).train(1)
    mine = folder + "/model" if rank == 0 else made + "/model"
    refused(CheckpointError, lambda: model.saver().save(model.session, mine), "temporary folder", mine)
    assert os.listdir(folder) == [] and os.listdir(made) == []
    os.rmdir(made)
    for last in (2, 3):
        model = Model(rank, ranks, start=False)
        with model.graph.as_default():
            tf.summary.scalar("seen", model.weights[0])
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=folder, save_summaries_steps=1, hooks=[
                        sok.InitHook(global_batch_size=1), tf.train.StopAtStepHook(last_step=last),
                        tf.train.ProfilerHook(save_steps=1, output_dir="{}/of {}".format(folder, rank))]) as session:
                while not session.should_stop():
                    session.run(model.step)
    tf.summary.FileWriterCache.clear()
    assert "timeline-2.json" in os.listdir("{}/of {}".format(folder, rank))
    yield
    files = [name for name in os.listdir(folder) if name.startswith("events")]
    assert len(files) == 1, files  # this process', for TensorFlow shares one for each folder
    steps = [event.step for event in tf.train.summary_iterator(os.path.join(folder, files[0]))
             for value in event.summary.value if value.tag == "seen"]
    assert steps == [1, 2, 3], steps


def supervisors(folder, rank, ranks):
    """All ranks' Supervisors have one logdir: one file of summaries, of which the loop says when all compute them."""
    sok.init()
    model = Model(rank, ranks, start=False)
    own = "{} of {}".format(folder, rank)
    with model.graph.as_default():
        seen = tf.summary.scalar("seen", model.weights[0])
        looked_up = tf.summary.scalar("looked_up", tf.reduce_sum(model.values[0]))
        writer = tf.summary.FileWriter(own)

    def run(logdir, **options):
        model.graph._unsafe_unfinalize()  # what a Supervisor has finalized
        with model.graph.as_default():
            supervisor = tf.train.Supervisor(logdir=logdir, save_model_secs=0, **options)
            with supervisor.managed_session() as session:
                for _ in range(3):
                    session.run(model.step)
                    supervisor.summary_computed(session, session.run(seen))

    run(folder, summary_op=looked_up, save_summaries_secs=0)
    run(folder + " by hand", summary_writer=writer, save_summaries_secs=0)
    timed = {"save_summaries_secs": 1000, "global_step": None}
    run(folder + " by clock", summary_op=seen, **timed)
    refused(ValueError, lambda: run(folder + " by clock", summary_op=looked_up, **timed),
            "got 'looked_up:0'", "/lookup'", "by this rank's own clock", "sv.summary_computed")
    yield
    files = [name for name in os.listdir(folder) if name.startswith("events")]
    assert len(files) == 1, files
    for of in folder, own:
        steps = []
        for name in (name for name in os.listdir(of) if name.startswith("events")):
            steps += [event.step for event in tf.train.summary_iterator(os.path.join(of, name))
                      for value in event.summary.value if value.tag == "seen"]
        assert steps == [1, 2, 3], steps


def manager_beside(folder, rank, ranks):
    """TensorFlow's hook saves all to its folder, where a manager has another one."""
    for begun in (0, 3):
        model = Model(rank, ranks, start=False)
        with model.graph.as_default():
            manager = sok.CheckpointManager(folder + "/best")
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=folder + "/saved", save_checkpoint_secs=None, save_checkpoint_steps=2,
                    hooks=[sok.InitHook(global_batch_size=1)], save_summaries_steps=None) as session:
                inner = session._tf_sess()
                model.check(begun, inner.run(model.values))
                for step in range(begun, begun + 3):
                    session.run(model.step)
                    if step == 1:
                        manager.save(inner, 2)
    final = Model(rank, ranks)
    with final.graph.as_default():
        assert sok.CheckpointManager(folder + "/best").restore(final.session) == 2
    final.check(2)


def read_first(folder, rank, ranks):
    """What a script's own hooks restore, save and read before TensorFlow's hook with our listener has restored."""
    saved, best, mine = (os.path.join(folder, name) for name in ("saved", "best", "mine"))
    found = []

    class Reads(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            table = tf.get_collection(sok.GraphKeys.GLOBAL_EMBEDDING_VARIABLES)[0]
            for call in sok.export, lambda table, session: sok.incremental_dump(table, 0, session):
                refused(CheckpointError, lambda: call(table, session), "has not restored its tables yet")
            found.extend(one[0] for one in sok.incremental_model_dump([table], datetime.datetime(1970, 1, 1), session))
            assert sorted(sok.export(table, session)[0]) == list(range(KEYS))[rank::ranks]
            manager.save(session, 3)

    class Restores(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            assert manager.restore(session) == 3

    def begin(*own, hook=None):
        session = tf.train.MonitoredTrainingSession(
            hooks=[sok.InitHook(global_batch_size=1), *own, hook], checkpoint_dir=saved if hook is listened else None,
            save_checkpoint_secs=None, save_summaries_steps=None, log_step_count_steps=None)
        inner = session._tf_sess()
        model.check(int(inner.run(model.number)), inner.run(model.values))
        return session

    for number in range(4):
        model = Model(rank, ranks, start=False)
        with model.graph.as_default():
            manager, ours = sok.CheckpointManager(best), sok.CheckpointSaverHook(mine, save_steps=100)
            listened = tf.train.CheckpointSaverHook(saved, save_steps=100, listeners=[sok.CheckpointSaverListener()])
            own = ([], [Reads()], [], [Restores()])[number]
            with begin(*own, hook=listened if number < 2 else ours) as session:
                assert session._tf_sess().run(model.number) == (0, 3, 0, 3)[number]
                for _ in range((3, 0, 1, 0)[number]):
                    session.run(model.step)
    assert sorted(found[0]) == list(range(KEYS))
    np.testing.assert_array_equal(found[1][:, 0], 10 * found[0] + 3)


def inside(folder, rank, ranks):
    """A run goes on in a checkpoint's folder: the job that has saved the checkpoint goes on from it, too."""
    start = folder + "/model.ckpt-3"
    for place, wanted, steps in (folder, 0, 3), (start, 3, 2), (folder, 3, 1):
        model = Model(rank, ranks, start=False)
        with model.graph.as_default():
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=place, save_checkpoint_secs=None, save_checkpoint_steps=100,
                    save_summaries_steps=None, hooks=[sok.InitHook(global_batch_size=1)]) as session:
                model.check(wanted, session._tf_sess().run(model.values))
                for _ in range(steps):
                    session.run(model.step)
        yield
        assert not list(verify.faults(start))


def rank_0_alone(folder, rank, ranks):
    """Horovod's recipe: only rank 0 has a checkpoint_dir. A Saver of dense variables is rank 0's own business."""
    def begin(**options):
        model = Model(rank, ranks, start=False)
        with model.graph.as_default():
            hooks = [sok.InitHook(global_batch_size=1)]
            if "saver" in options:
                saver = tf.train.Saver([model.weights])
                hooks += [tf.train.CheckpointSaverHook(folder, save_steps=1, saver=saver)] if rank == 0 else []
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=options.get("folder"), save_checkpoint_secs=options.get("secs"), hooks=hooks,
                    log_step_count_steps=None, save_summaries_steps=None) as session:
                session.run(model.step)
    refused(CheckpointError, lambda: begin(folder=folder if rank == 0 else None, secs=600),
            "rank 1: none", "every rank's MonitoredTrainingSession the same checkpoint_dir")
    assert not [name for name in os.listdir(folder) if not name.startswith("events")] if rank == 0 else True
    begin(saver=True)
    assert rank or tf.train.list_variables(tf.train.latest_checkpoint(folder)) == [("weights", [2])]


def rank_0_alone_in_a_loop(folder, rank, ranks):
    """Only rank 0 calls a Saver; the others train on."""
    model = Model(rank, ranks).train(1)
    if rank == 0:
        model.saver().save(model.session, folder + "/model")
    model.train(3)


def urls(folder, rank, ranks):
    """A file:// URL is a path; of others ranks could not restore what they save."""
    url = "file://" + os.path.abspath(folder)
    for begun in (0, 3):
        model = Model(rank, ranks, start=False)
        with model.graph.as_default():
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=url, save_checkpoint_secs=None, save_checkpoint_steps=2, save_summaries_steps=None,
                    hooks=[sok.InitHook(global_batch_size=1)]) as session:
                model.check(begun, session._tf_sess().run(model.values))
                for _ in range(3):
                    session.run(model.step)
    yield
    final = Model(rank, ranks)
    final.saver().restore(final.session, url + "/model.ckpt-6")
    final.check(6)
    assert not os.path.exists("file:") and os.path.exists(folder + "/model.ckpt-6/manifest.json")
    saver = final.saver(max_to_keep=1)
    for step in (7, 8):
        assert saver.save(final.session, url + "/mine", step) == url + "/mine-{}".format(step)
        yield
    assert tf.train.latest_checkpoint(folder) == folder + "/mine-8" and not os.path.exists(folder + "/mine-7")
    refused(CheckpointError, lambda: saver.save(final.session, "hdfs://host/model"), "hdfs://host/model, a URL")
    with final.graph.as_default():
        refused(ValueError, lambda: sok.CheckpointManager("hdfs://host/folder"), "no URL")
        refused(ValueError, lambda: sok.CheckpointSaverListener("hdfs://host/folder"), "no URL")


if __name__ == "__main__":
    main(globals())
