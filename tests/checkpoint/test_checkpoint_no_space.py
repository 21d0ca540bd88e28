"""What is said where no space is left: bytes, a quota or files; and what a manager's user can do."""
import errno
import os

import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint import errors
from sok1x.checkpoint.files import manifest


def test_a_full_disk_says_which_option_keeps_fewer(tmp_path, monkeypatch):
    def full(folder, made):
        raise errors.of_write(OSError(errno.ENOSPC, "full"), folder)

    sok.init()
    monkeypatch.setattr(manifest, "write", full)
    with tf.Graph().as_default(), tf.Session() as session:
        sok.Variable([[1.0, 2.0]], name="table")
        manager = sok.CheckpointManager(str(tmp_path))
        session.run(tf.global_variables_initializer())
        with pytest.raises(errors.NoSpaceError, match=r"keep fewer checkpoints \(keep_checkpoint_max\), or write to"):
            manager.save(session, 1)
    assert os.listdir(str(tmp_path)) == [".sok1x.lock"]
    for error in (errno.ENOSPC, errno.EDQUOT):
        assert "Free some space, or write to" in str(errors.of_write(OSError(error, "full"), "a dump's"))


@pytest.mark.parametrize("wanted, free, quota", [(9000, 12, False), (9000, None, False), (0, 0, False),
                                                 (0, 1 << 40, True), (9000, 1 << 40, True)])
def test_where_bytes_are_free_it_is_a_quota_or_the_number_of_files(wanted, free, quota):
    """What the system gives then is the same, or as much as the same (ENOSPC of no inodes, EDQUOT)."""
    assert ("a quota is used up, or the number of files" in str(errors.NoSpaceError("part", wanted, free))) == quota
