"""Where hosts cannot be made, the tests are skipped, with the reason."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import network  # noqa: E402


def pytest_ignore_collect(config):
    """Only where these tests are asked for: `make test-hosts`. They need root, and other tests beside them no more."""
    return None if any("hosts" in str(argument) for argument in config.args) else True


def pytest_collection_modifyitems(items):
    """One reason for all of them, found once."""
    here = [item for item in items if str(item.fspath).startswith(os.path.dirname(os.path.abspath(__file__)))]
    if not here:
        return
    try:
        network.expect_possible()
    except network.Unavailable as error:
        for item in here:
            item.add_marker(pytest.mark.skip(reason="no hosts in network namespaces: {}".format(error)))
