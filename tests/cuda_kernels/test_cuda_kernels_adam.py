"""lazy_adam and adam against NumPy in float32, to the bit."""
import numpy as np
import pytest
from kernel_checks import DIMS, dirty
from kernel_devices import call, same_bits

from sok1x.cuda_kernels import adam

pytestmark = pytest.mark.usefixtures("device")

LEAST = np.finfo(np.float32).tiny
F = np.float32
SCALARS = [F(0.05), F(0.9), F(0.999), F(1e-7), F(0.9 ** 3), F(0.999 ** 3)]


def step(scalars, gradients, table, m, v):
    """The formula, every operation rounded to float32."""
    rate, beta1, beta2, epsilon, beta1_power, beta2_power = scalars
    rate = rate * np.sqrt(F(1) - beta2_power) / (F(1) - beta1_power)
    m = beta1 * m + (F(1) - beta1) * gradients
    v = beta2 * v + (F(1) - beta2) * (gradients * gradients)
    return table - rate * m / (np.sqrt(v) + epsilon), m, v


class Case:
    """A table with moments, and gradients for some of its rows."""

    def __init__(self, seed, table_rows, dim, n):
        random = np.random.RandomState(seed)
        self.state = [random.normal(size=(table_rows, dim)).astype(F), random.normal(size=(table_rows, dim)).astype(F),
                      random.uniform(0, 2, size=(table_rows, dim)).astype(F)]
        self.rows = random.permutation(table_rows)[:n].astype(np.int32)
        self.values = random.normal(size=(n, dim)).astype(F)
        self.scalars = SCALARS

    def scalar_arrays(self):
        return [np.array([scalar], F) for scalar in self.scalars]

    def lazy_adam(self):
        state = [array.copy() for array in self.state]
        rows, dim = state[0].shape
        call(adam.lazy_adam, self.values, self.rows, self.scalar_arrays(), *state)
        return tuple(state)

    def adam(self):
        state = [array.copy() for array in self.state]
        rows, dim = state[0].shape
        position = dirty(rows, np.int32)
        call(adam.adam, self.values, self.rows, self.scalar_arrays(), position, *state)
        return tuple(state)

    def expected(self, lazy):
        known = (self.rows >= 0) & (self.rows < len(self.state[0]))
        rows, values = self.rows[known], self.values[known]
        if lazy:
            state = [array.copy() for array in self.state]
            for array, new in zip(state, step(self.scalars, values, *[array[rows] for array in state])):
                array[rows] = new
            return state
        gradients = np.zeros_like(self.state[0])
        gradients[rows] = values
        return step(self.scalars, gradients, *self.state)

    def check(self):
        for lazy in (True, False):
            got = same_bits(self.lazy_adam if lazy else self.adam)
            for name, one, two in zip(("table", "m", "v"), got, self.expected(lazy)):
                np.testing.assert_array_equal(one, two, "{} lazy={}".format(name, lazy))


@pytest.mark.parametrize("dim", DIMS)
def test_against_numpy(dim, seed):
    for n in (0, 1, 2, 3, 300, 500):
        Case(seed, 500, dim, n).check()
    Case(seed, 1, dim, 1).check()


@pytest.mark.parametrize("edge", ["last rows", "outside", "powers of 0", "no powers", "no decay", "zeros"])
def test_edges(edge, seed):
    case = Case(seed, 70, 9, 50)
    if edge == "last rows":
        case.rows = np.arange(69, 19, -1).astype(np.int32)
    elif edge == "outside":  # left out, with nothing written before or behind the table
        case.rows[[0, 7, 49]] = [-1, 70, np.iinfo(np.int32).max]
        case.rows[8] = np.iinfo(np.int32).min
    elif edge == "powers of 0":
        case.scalars = SCALARS[:4] + [F(0), F(0)]
    elif edge == "no powers":
        case.scalars = SCALARS[:4] + [F(0), F(0)]
        first = case.lazy_adam() + case.adam()
        case.scalars = SCALARS[:4]
        assert all((one == two).all() for one, two in zip(first, case.lazy_adam() + case.adam()))
        return
    elif edge == "no decay":
        case.scalars = [F(0.1), F(1), F(0), F(0), F(0.5), F(0.5)]
        with np.errstate(divide="ignore"):  # m / 0, in rows without gradient
            case.check()
        return
    elif edge == "zeros":
        case.state[1][...] = case.state[2][...] = case.values[...] = 0
    case.check()


def test_not_a_number_stays_in_its_place(seed):
    case = Case(seed, 40, 7, 30)
    case.values[3, 2], case.values[4, 0], case.values[5, 6] = np.nan, np.inf, -np.inf
    case.state[0][case.rows[9], 1] = case.state[1][case.rows[10], 1] = case.state[2][case.rows[11], 1] = np.nan
    case.state[2][case.rows[12], 1] = -1
    with np.errstate(invalid="ignore"):
        case.check()
        for table in case.lazy_adam()[0], case.adam()[0]:
            assert np.argwhere(np.isnan(table)).tolist() == sorted(
                [case.rows[i], c] for i, c in ((3, 2), (4, 0), (5, 6), (9, 1), (10, 1), (11, 1), (12, 1)))


def test_moments_end_in_zeros():
    """Not in numbers below the least normal one, where a CPU is many times slower; and the thread's mode is kept."""
    case = Case(0, 6, 5, 0)
    for _ in range(1200):
        case.state = list(case.adam())
    assert not case.state[1].any()
    case = Case(0, 6, 5, 6)
    case.values[...] = 0
    case.state[1][...] = case.state[2][...] = LEAST
    for state in (case.lazy_adam(), case.adam()):
        assert not state[1].any() and not state[2].any()
    below = np.full(64, LEAST) * F(0.5)
    assert (below > 0).all()
