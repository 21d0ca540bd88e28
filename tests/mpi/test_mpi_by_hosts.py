"""Exchanges inside each host first, then between hosts, of ranks that are taken for hosts: right in every way."""
import os

import pytest
from ranks import EQUAL_BITS, run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks, of_a_host", [(4, 2), pytest.param(6, 2, marks=pytest.mark.slow),
                                              pytest.param(6, 3, marks=pytest.mark.slow)])
def test_values_tables_bytes_and_errors(ranks, of_a_host, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_by_hosts.py"), seed, timeout=300,
                         env={"SOK1X_EXCHANGE_BY_HOSTS": str(of_a_host)})
    assert finished.out.count(" ok") == ranks, str(finished)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["program_groups.py", "program_second_order.py", "program_in_flight.py",
                                     "program_growth.py", "program_dynamic.py"])
def test_programs_that_check_themselves(program, seed):
    """Groups in C++ as members one by one in Python, gradients of gradients, runs in flight, tables that grow."""
    finished = run_ranks(4, os.path.join(HERE, program), seed % 10 ** 6, timeout=300, env=dict(
        {"SOK1X_EXCHANGE_BY_HOSTS": "2"}, **EQUAL_BITS if program == "program_groups.py" else {}))
    assert finished.out.count("together" if program == "program_groups.py" else "ok") == 4, str(finished)


def test_where_it_cannot_be_it_is_said_once():
    finished = run_ranks(2, "import sok1x as sok; sok.init(); print('there')", check=False,
                         env={"SOK1X_EXCHANGE_BY_HOSTS": "1"})
    assert finished.code == 0 and finished.out.count("there") == 2, str(finished)
    assert finished.err.count("SOK1X_EXCHANGE_BY_HOSTS=1") == finished.err.count("all ranks are on one host") == 1, str(
        finished)


DIFFERENT = """
import os
import tensorflow.compat.v1 as tf
import sok1x as sok
for name in ("SOK1X_EXCHANGE_BY_HOSTS", "SOK1X_WHOLE_HEADERS"):
    os.environ[name] = str(2 * int(os.environ["OMPI_COMM_WORLD_RANK"]))
    try:
        sok.init()
        print("joined, with different", name)
    except tf.errors.InvalidArgumentError as error:
        assert name + " must have one value on all ranks" in error.message, error.message
        assert "got 0, 2 on the" in error.message, error.message
    os.environ[name] = "0"
sok.init()
print("ok")
"""


def test_ranks_that_want_different_ones_are_told():
    finished = run_ranks(2, DIFFERENT)
    assert finished.out.split() == ["ok", "ok"], str(finished)
