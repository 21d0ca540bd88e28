"""bridge/bridge_shown_times.h: from what a clock shows to moments, whoever sets the clock meanwhile."""
import ctypes
import os
import subprocess

import numpy as np
import pytest

import sok1x.graph_ops

SOURCE = """
#include "bridge_shown_times.h"
extern "C" {
void* make() { return new sok1x::ShownTimes; }
void hear(void* times, int64_t before, int64_t time, int64_t after) {
  static_cast<sok1x::ShownTimes*>(times)->Hear(before, time, after);
}
int64_t earliest(void* times, int64_t time) { return static_cast<sok1x::ShownTimes*>(times)->Earliest(time); }
}
"""
YEAR = 365 * 86400 * 10 ** 6


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown_times")
    (folder / "shown.cc").write_text(SOURCE)
    bridge = os.path.join(os.path.dirname(os.path.realpath(sok1x.graph_ops.__file__)), "bridge")
    made = str(folder / "shown.so")
    subprocess.check_call(["g++", "-std=c++11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-I", bridge,
                           str(folder / "shown.cc"), "-o", made])
    library = ctypes.CDLL(made)
    i64, pointer = ctypes.c_int64, ctypes.c_void_p
    for name, result, arguments in (("make", pointer, []), ("hear", None, [pointer] + [i64] * 3),
                                    ("earliest", i64, [pointer, i64])):
        getattr(library, name).restype, getattr(library, name).argtypes = result, arguments
    return library


class Clock:
    """A clock, set now and then, and what has been heard of it. `read` are (moment, time) of whoever looked at it."""

    def __init__(self, library, seed):
        self._library, self._random = library, np.random.RandomState(seed)
        self._times, self.moment, self._ahead, self.read = library.make(), 50 * YEAR, 0, []
        self.hear()

    def hear(self):
        before, after = self._random.randint(0, 20, 2)
        self._library.hear(self._times, self.moment, self.moment + before + self._ahead, self.moment + before + after)
        self.moment += int(before + after)

    def go(self, most):
        """Some time goes by, in which somebody looks at the clock."""
        for _ in range(2):
            self.moment += int(self._random.randint(1, most))
            self.read.append((self.moment, self.moment + self._ahead))
        self.moment += int(self._random.randint(1, most))

    def set(self, by):
        self._ahead += by

    def errors(self):
        """By how much each time that was read is taken for an earlier moment; the clock has been heard since."""
        return np.array([moment - self._library.earliest(self._times, time) for moment, time in self.read])

    def earliest(self, time):
        return self._library.earliest(self._times, time)


def test_of_a_clock_that_nobody_sets_each_time_is_its_moment(library):
    clock = Clock(library, 0)
    for _ in range(300):
        clock.go(10 ** 6)
        clock.hear()
    errors = clock.errors()
    assert errors.min() >= 0 and errors.max() <= 20 and errors[-100:].max() <= 2
    assert clock.earliest(0) < YEAR and clock.earliest(clock.moment + YEAR) <= clock.moment


@pytest.mark.parametrize("by", [-3600 * 10 ** 6, -10 ** 6, -10 ** 4, 10 ** 4, 10 ** 6, 3600 * 10 ** 6])
def test_of_a_clock_that_is_set_no_moment_is_later_and_few_are_much_earlier(by, library):
    clock = Clock(library, 1)
    for number in range(300):
        clock.go(10 ** 6)
        if number == 150:
            clock.set(by)
            clock.go(10 ** 6)
        clock.hear()
    errors = clock.errors()
    assert errors.min() >= 0
    assert errors.max() <= max(-by, 0) + 6 * 10 ** 6
    assert (errors > 20).sum() <= 8 + 2 * max(-by, 0) / 10 ** 6
    between = clock.earliest(clock.read[301][1] + by // 2)  # what it has not shown, if it went forward by much
    assert between <= clock.read[302][0]


def test_of_a_clock_that_is_set_all_the_time_no_moment_is_later(library):
    random, clock = np.random.RandomState(2), Clock(library, 3)
    for _ in range(5000):
        clock.go(10 ** 5)
        clock.set(int(random.randint(-10 ** 6, 10 ** 6)))
        clock.go(10 ** 5)
        clock.hear()
    assert clock.errors().min() >= 0
