"""What another user of the machine gets, in a child of this process; only root can try."""
import os
import tempfile

import pytest

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="another user is needed")
_NOBODY = 65534


def open_folder(request):
    """A temporary folder that others may look into, which pytest's own are not: a path. It is gone after the test."""
    made = tempfile.TemporaryDirectory()
    request.addfinalizer(made.cleanup)
    os.chmod(made.name, 0o755)
    return made.name


def as_nobody(function):
    """What `function` returns there, or raises, as a text."""
    here, out = os.pipe()
    child = os.fork()
    if not child:
        text = ""
        try:
            os.setgroups([])
            os.setgid(_NOBODY)
            os.setuid(_NOBODY)
            text = str(function())
        except BaseException as error:  # it is what the test asks for
            text = "{}: {}".format(type(error).__name__, error)
        os.write(out, text.encode())
        os._exit(0)
    os.close(out)
    with os.fdopen(here) as told:
        text = told.read()
    os.waitpid(child, 0)
    return text
