"""Two jobs with one folder, saves while another graph runs, and whole jobs that find a damaged checkpoint."""
import os
import re
import shutil
import signal
import sys

import counted_model
import damages
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks, unexpected
from talking import Talking

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError, WriteError
from sok1x.checkpoint.files import folders, manifest
from sok1x.checkpoint.session.ranks import Ranks

HERE = os.path.dirname(os.path.abspath(__file__))
KEEP_SAVING, KILL = (os.path.join(HERE, name) for name in ("program_keep_saving.py", "program_kill.py"))


def heard(job, word):
    """The number that follows a word in the next line that begins with it."""
    while True:
        words = job.hear()
        assert words, "the job ended"
        if words[0] == word:
            return int(words[1])


@pytest.mark.parametrize("ending", ["by itself", "by SIGKILL"])
def test_two_jobs_with_one_folder(tmp_path, ending):
    folder = str(tmp_path / "saved")
    with Talking(sys.executable, KEEP_SAVING, folder) as first:
        before = heard(first, "saved")
        for ranks in (0, 2) if ending == "by itself" else (0,):
            second = run_ranks(ranks, KEEP_SAVING, folder, check=False)
            assert second.code != 0
            assert re.search(r"LockedError: Another job saves checkpoints to {}: process {} on \S+ holds".format(
                re.escape(folder), first.pid), second.err), str(second)
            assert "restored" not in second.out
        after = [heard(first, "saved") for _ in range(5)]
        assert after == list(range(after[0], after[0] + 5)) and after[0] > before
        if ending == "by itself":
            first.say("end")
            assert first.end() == 0 and not unexpected(first.err), first.err
        else:
            os.kill(first.pid, signal.SIGKILL)
            assert first.end() == -signal.SIGKILL
    trained = counted_model.check_folder(folder)
    with Talking(sys.executable, KEEP_SAVING, folder) as third:
        assert heard(third, "restored") == trained
        assert heard(third, "saved") == trained // 2 + 1


def test_saves_while_another_graph_is_evaluated(tmp_path):
    folder = str(tmp_path / "saved")
    finished = run_ranks(2, os.path.join(HERE, "program_evaluate.py"), folder, 20)
    during = [int(count) for count in re.findall(r"evaluated (\d+) times during saves", finished.out)]
    assert len(during) == 2 and min(during) > 0, str(finished)
    for found in folders.complete(folder):
        assert counted_model.check_checkpoint(found, 3) in (2 * found.step, 2 * found.step + 1)
    assert counted_model.check_folder(folder) == 20


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a job of two ranks that ended after damages.STEP global steps."""
    folder = str(tmp_path_factory.mktemp("jobs") / "saved")
    run_ranks(2, KILL, folder, 60, 4, "none", 2 * damages.STEP)
    return folder


@pytest.mark.parametrize("name", ["flip rows payload", "cut data half"])
def test_a_job_does_not_begin_with_a_damaged_checkpoint(saved, tmp_path, name):
    folder, damage = str(tmp_path / "saved"), damages.DAMAGES[name]
    shutil.copytree(saved, folder)
    damage.act(os.path.join(folder, "model.ckpt-{}".format(damages.STEP)), "")
    finished = run_ranks(2, KILL, folder, 60, 4, "none", 8, check=False)
    assert finished.code != 0 and "restored" not in finished.out
    assert damage.file in finished.err and (damage.table is None or "'{}'".format(damage.table) in finished.err)


@pytest.mark.parametrize("cause", [None, OSError("disk")])
def test_a_rank_whose_work_has_failed_says_so_where_it_cannot_tell_the_others(tmp_path, monkeypatch, cause):
    """As where their job ends meanwhile."""
    def fail(*_arguments):
        monkeypatch.setattr(Ranks, "_gather", ended)
        raise WriteError("cannot write") from cause

    def ended(*_arguments):
        raise CheckpointError("another rank has ended")

    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        sok.Variable([[1.0]], name="table")
        manager = sok.CheckpointManager(str(tmp_path))
        session.run(tf.global_variables_initializer())
        monkeypatch.setattr(manifest, "write", fail)
        with pytest.raises(WriteError, match="cannot write") as raised:
            manager.save(session, 1)
        assert str(raised.value.__cause__) == ("another rank has ended" if cause is None else "disk")
        monkeypatch.undo()
        monkeypatch.setattr(Ranks, "_gather", ended)
        with pytest.raises(CheckpointError, match="another rank has ended"):
            manager.save(session, 1)
