"""What cannot be restored: an error on all ranks that names file and table, or both values; no variable has changed."""
import json
import os
import random

import counted_model
import damages
import once
import pytest
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_restore.py")
MISMATCHES = {  # what the error says, and whether all ranks find out by themselves
    "dim": (["D of table 'EmbeddingVariable' is 4", "and 8 in the model"], True),
    "key dtype": (["key dtype of table 'EmbeddingVariable' is int64", "and uint32 in the model"], True),
    "direct": (["use_hashtable of table 'EmbeddingVariable' is True", "and False in the model"], True),
    "rows": (["has 30 rows of table 'EmbeddingVariable'", "its shard has 20 rows", "max_vocabulary_size_per_gpu of at "
              "least 30"], True),
    "adam": (["has no 'slot:EmbeddingVariable/Adam' of table 'EmbeddingVariable', which the model has",
              "slot:EmbeddingVariable/Momentum", "write the rows alone with it (sok.dump)"], True),
    "table": (["There is no table 'EmbeddingVariable_1'", "it has EmbeddingVariable."], True),
    "dense shape": (["variable 'weights' is float32 [3]", "float32 (5,) in the model"], False),
    "dense dtype": (["variable 'weights' is float32 [3]", "float64 (3,) in the model"], False),
    "dense more": (["has no variable 'more', which the model has; it has ", "global_step, weights."], False)}
SOUND = ("same", "more rows", "no slots")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """What rank 0 and rank 1 report."""
    def make(folder):
        seed, reported = int(os.environ.get("SOK1X_TEST_SEED", random.SystemRandom().randrange(2 ** 31))), []
        print("SOK1X_TEST_SEED={}".format(seed))
        run_ranks(2, PROGRAM, folder, seed, timeout=180)
        for rank in range(2):
            with open(os.path.join(folder, "report-{}.json".format(rank))) as file:
                reported.append(json.load(file))
        return seed, reported

    seed, reported = once.made(tmp_path_factory, "checkpoint_faults_restore", make)
    print("SOK1X_TEST_SEED={}".format(seed))
    return reported


def expect(report, words):
    classes, message, changed = report
    assert "CheckpointError" in classes, (classes, message)
    assert changed == []
    for word in words:
        assert word in message, (word, message)


@pytest.mark.parametrize("name", list(damages.DAMAGES))
def test_damaged(reports, name):
    damage = damages.DAMAGES[name]
    found = [report["damages"][name] for report in reports]
    for report in found:
        expect(report, ["model.ckpt-{}/{}".format(damages.STEP, damage.file)]
               + (["table '{}'".format(damage.table)] if damage.table else []))
    kind = "FormatVersionError" if name.startswith("later") else "DamagedError"
    assert any(classes[0] == kind for classes, _, _ in found)
    # The other rank, if it did not read the file, says whose error it is.
    assert all(classes[0] == kind or message.startswith("Rank ") for classes, message, _ in found)


def test_undamaged(reports):
    for report in reports:
        classes, message, changed = report["damages"]["none"]
        assert classes == [], message
        assert {counted_model.HASHED + ":0", counted_model.DIRECT + ":0", "trained:0", "global_step:0"} < set(changed)


@pytest.mark.parametrize("name", list(MISMATCHES))
def test_mismatched(reports, name):
    words, everywhere = MISMATCHES[name]
    kind = "NotFoundError" if name == "table" else "MismatchError"
    for rank, report in enumerate(reports):
        expect(report["mismatches"][name], words)
        if everywhere or rank == 0:
            assert report["mismatches"][name][0][0] == kind


@pytest.mark.parametrize("name", SOUND)
def test_what_is_no_mismatch(reports, name):
    for report in reports:
        classes, message, changed = report["mismatches"][name]
        assert classes == [], message
        assert "EmbeddingVariable:0" in changed
    assert set(reports[0]["mismatches"]) == set(MISMATCHES) | set(SOUND)


@pytest.mark.parametrize("name, finds", [("save", "has just made"), ("restore", "has found")])
def test_a_rank_that_does_not_see_the_folder(reports, name, finds):
    for rank, report in enumerate(reports):
        expect(report["unseen"][name], ["does not see the folder saved/", "that rank 0 " + finds,
                                        "it must be on a file system that all ranks share"])
        assert report["unseen"][name][1].startswith("Rank 1: ") == (rank == 0)


@pytest.mark.parametrize("name, words", [
    ("hook", "The ranks save different steps: rank 0 3, rank 1 4."),
    ("save", "The ranks save different steps: rank 0 1, rank 1 2."),
    ("restore", "The ranks restore different steps: rank 0 1, rank 1 2."),
    ("last", "The ranks restore different steps: rank 0 the last, rank 1 2.")])
def test_ranks_that_mean_different_steps(reports, name, words):
    done = "saved" if name in ("hook", "save") else "restored"
    for report in reports:
        expect(report["steps"][name], [words, "nothing was " + done])
