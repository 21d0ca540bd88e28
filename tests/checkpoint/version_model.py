"""What is in saved_by_1.15.tar.gz and saved_by_2.15.tar.gz: what this file, run as a program, writes on either.

    python version_model.py FOLDER            # former_model.py's model, saved in every format

`whole/` by sok.CheckpointManager, `alone/` by tf.train.Saver on one rank, `dump/` by sok.dump, `files/` by sok.Saver;
`expected.json` has the rows then and after one more step. `estimator/own/` was trained to step 6 on two ranks by
program_estimator.py; earlier checkpoints, its graph and events are left out.
"""
import json
import os
import sys

import former_model
import tensorflow.compat.v1 as tf

import sok1x as sok

FIXED = (0, 2)  # the tables that do not grow, which sok.Saver's files are of


class Model(former_model.Model):
    """former_model.py's, with all that saves it and loads it."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.init = folder, sok.Init(global_batch_size=3)
        self.fixed = [self.tables[place] for place in FIXED]
        self.manager, self.saver = sok.CheckpointManager(self.at("whole")), tf.train.Saver()
        files = sok.Saver()
        self.dumps = [files.dump_to_file(table, self.at("files")) for table in self.fixed]
        self.restores = [files.restore_from_file(table, self.at("files")) for table in self.fixed]

    def at(self, name):
        return os.path.join(self.folder, name)

    def save(self, session):
        self.manager.save(session, 3)
        self.saver.save(session, self.at("alone/model.ckpt"), write_meta_graph=False, write_state=False)
        sok.dump(self.at("dump"), self.fixed, session=session)
        os.makedirs(self.at("files"), exist_ok=True)
        for dump in self.dumps:
            session.run(dump)

    def load(self, session, way):
        if way == "whole":
            assert self.manager.restore(session) == 3
        elif way == "alone":
            self.saver.restore(session, self.at("alone/model.ckpt"))
        elif way == "dump":
            sok.load(self.at("dump"), self.fixed, session=session)
        else:
            for restore in self.restores:
                session.run(restore)


def main(folder):
    tf.disable_v2_behavior()
    os.chdir(folder)  # graphs have the paths that ops write to
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(".")
        session.run(model.init)
        session.run(tf.global_variables_initializer())
        model.train(session, former_model.BATCHES[:2])
        model.save(session)
        expected = {"saved": model.rows(session)}
        model.train(session, former_model.BATCHES[2:])
        expected["next"] = model.rows(session)
        with open(model.at("expected.json"), "w") as file:
            json.dump(expected, file)


if __name__ == "__main__":
    main(sys.argv[1])
