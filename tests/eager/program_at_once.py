"""Run by test_eager.py: what eager tables note and run by themselves, in several threads at once."""
import sys
import threading

import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x.core.eagerly import eager  # noqa: E402


class Noted:
    """What a list of known variables has references to."""


def add_at(number, variable, other, name):
    """Notes a variable, and before the instruction of this number, or the line, begins to note another, in another
    thread; from Python 3.12 on no instruction of a call that is under way is told.

    Returns:
        The thread; None: there are fewer.
    """
    threads, at = [], [0]

    def trace(frame, event, _):
        frame.f_trace_opcodes = True
        if event in ("opcode", "line"):
            at[0] += 1
            if at[0] == number:
                threads.append(threading.Thread(target=eager.add, args=(other, name)))
                threads[0].start()
                threads[0].join(0.02)  # it may wait for this one
        return trace

    sys.settrace(lambda frame, event, _: trace(frame, event, _) if frame.f_code is eager.add.__code__ else None)
    eager.add(variable, name)
    sys.settrace(None)
    return threads[0] if threads else None


def check_noted():
    """None is lost while another is noted."""
    for number in range(1, 1000):
        name, noted = "noted_{}".format(number), [Noted() for _ in range(3)]
        eager.add(noted[0], name)
        thread = add_at(number, noted[1], noted[2], name)
        if thread is None:
            break
        thread.join()
        assert {id(one) for one in eager.collected(eager.graph(), name)} == {id(one) for one in noted}, number
    assert number > 8, number


def check_runs():
    """Parts of a table's graph, of which few are kept."""
    table, wrong = sok.DynamicVariable(2), []
    with eager.room(table):
        numbers = [tf.constant(i) for i in range(6)]

    def run(first):
        try:
            for i in range(first, first + 150):
                assert eager.session().run(numbers[i % 6]) == i % 6
        except Exception as error:
            wrong.append(error)

    eager._MOST_PARTS = 2
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=run, args=[first]) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def main():
    sok.init()
    check_noted()
    check_runs()
    sys.stdout.write("ok\n")


if __name__ == "__main__":
    main()
