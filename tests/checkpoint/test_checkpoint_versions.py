"""What one TensorFlow has saved the other goes on with: 1.15 and 2.15, both ways, in every format."""
import json
import os
import subprocess
import tarfile

import pytest
import tensorflow.compat.v1 as tf
from former_model import BATCHES
from ranks import environment, run_ranks
from version_model import Model

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
THIS, OTHER = ("1.15", "2.15") if tf.__version__.startswith("1.") else ("2.15", "1.15")
OTHER_PYTHON = os.path.join(ROOT, {"1.15": ".venv", "2.15": ".venv-2.15"}[OTHER], "bin", "python")


def unpacked(version, folder):
    with tarfile.open(os.path.join(HERE, "saved_by_{}.tar.gz".format(version))) as archive:
        archive.extractall(str(folder))
    return str(folder)


def check_goes_on(folder, ways=("whole", "alone", "dump", "files")):
    """Rows to the bit; and with an optimizer's slots the next step too, but for the order of adding."""
    with open(os.path.join(folder, "expected.json")) as file:
        expected = json.load(file)
    for way in ways:
        with tf.Graph().as_default(), tf.Session() as session:
            model = Model(folder)
            session.run(model.init)
            session.run(tf.global_variables_initializer())
            model.load(session, way)
            found, with_slots = model.rows(session), way in ("whole", "alone")
            for place in expected["saved"] if with_slots else map(str, (0, 2)):
                assert found[place] == expected["saved"][place], (way, place)
            if with_slots:
                model.train(session, BATCHES[2:])
                for place, rows in model.rows(session).items():
                    assert rows.keys() == expected["next"][place].keys()
                    for key, row in rows.items():
                        assert row == pytest.approx(expected["next"][place][key], rel=1e-6, abs=1e-7), (way, place, key)


@pytest.mark.parametrize("version", ["1.15", "2.15"])
def test_what_either_has_saved(version, tmp_path):
    check_goes_on(unpacked(version, tmp_path))


def test_an_estimator_of_the_other_goes_on(tmp_path):
    folder = os.path.join(unpacked(OTHER, tmp_path), "estimator")
    finished = run_ranks(2, os.path.join(HERE, "program_estimator.py"), folder, "own", "evaluate:6", "train:9",
                         "predict:9", timeout=300)
    assert finished.out.count("did predict from 9 to 9") == 2, str(finished)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists(OTHER_PYTHON), reason="the other TensorFlow's environment is not there")
def test_what_the_other_saves_now(tmp_path):
    subprocess.run([OTHER_PYTHON, os.path.join(HERE, "version_model.py"), str(tmp_path)], check=True, timeout=300,
                   env=dict(environment(), TF_CPP_MIN_LOG_LEVEL="3"))
    check_goes_on(str(tmp_path))
