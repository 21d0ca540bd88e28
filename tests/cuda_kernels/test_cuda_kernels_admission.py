"""Draws, and the sketch that counts keys: against exact counts, and against the error that is stated."""
import numpy as np
import pytest
from kernel_checks import EXTREMES, mix64
from kernel_devices import call, same_bits, size

from sok1x.cuda_kernels import admission

pytestmark = pytest.mark.usefixtures("device")


def refused(sketch, width, keys, least, rows=None):
    rows = np.full(len(keys), -1, np.int32) if rows is None else rows
    count = call(admission.refuse_rare, sketch, width, keys, least, rows)
    assert count == (rows == -2).sum()
    return rows == -2


@pytest.mark.parametrize("least", [1, 2, 5, 255, 300])
def test_a_key_is_admitted_at_its_kth_lookup_where_the_sketch_has_room(seed, least):
    random = np.random.RandomState(seed)
    width = 1 << 16
    sketch = np.zeros(admission.sketch_words(width, least), np.int64)
    keys = np.concatenate([EXTREMES, random.randint(-10 ** 9, 10 ** 9, 30)])
    counts, counted = dict.fromkeys(keys.tolist(), 0), 0
    for _ in range(least + 3 if least < 200 else least + 1):
        batch = np.unique(random.permutation(keys)[:-3])
        out = refused(sketch, width, batch, least)
        for key, is_out in zip(batch.tolist(), out):
            counts[key] += 1
            assert is_out == (counts[key] < least), (key, counts[key])
        counted = 0 if counted + len(batch) >= width // 16 else counted + len(batch)
        assert sketch[0] == counted


def test_keys_with_rows_are_neither_counted_nor_refused(seed):
    keys = np.random.RandomState(seed).permutation(1000).astype(np.int64)
    sketch = np.zeros(admission.sketch_words(1 << 14, 2), np.int64)
    rows = np.where(keys % 3 == 0, 7, -1).astype(np.int32)

    def run():
        sketch[:] = 0
        found = rows.copy()
        refused(sketch, 1 << 14, keys, 2, found)
        return found, sketch

    found, _ = same_bits(run)
    assert sketch[0] == (keys % 3 != 0).sum()
    np.testing.assert_array_equal(found[keys % 3 == 0], 7)
    assert (found[keys % 3 != 0] == -2).mean() > 0.95
    call(admission.forget_refused, found)
    np.testing.assert_array_equal(found == -1, (rows == -1) & (found != 7))


def counters_of(sketch, least):
    return sketch[1:].view({8: np.uint8, 16: np.uint16, 32: np.uint32}[admission.counter_bits(least)])


def test_the_stated_error_holds_and_counts_are_halved_before_the_sketch_fills(seed):
    random = np.random.RandomState(seed)
    width, batch = 1 << 12, 256
    sketch = np.zeros(admission.sketch_words(width, 2), np.int64)
    keys = random.permutation(10 ** 7)[:64 * batch].astype(np.int64)  # none twice: whoever is admitted is so in error
    shares, halved, due = [], 0, width // 16
    for number in range(64):
        before, counted = counters_of(sketch, 2).copy(), int(sketch[0])
        out = refused(sketch, width, keys[number * batch:(number + 1) * batch], 2)
        after, counted = counters_of(sketch, 2), counted + batch
        shares.append(1 - out.mean())
        assert (before != 0).mean() < 0.71
        if after.sum() < before.sum():
            halved += 1
            assert counted >= due and (before != 0).mean() > 0.55 and (after != 0).mean() < 43 / 64
        assert sketch[0] == (counted if counted < due else 0)
    assert 3 <= halved <= 16 and max(shares) < 0.3, (halved, shares)
    assert np.mean(shares[:8]) < 0.03 and np.mean(shares) < 0.22, shares
    # Counters are halved, not cleared: what was counted twice still counts once.
    twice = np.array([-5], np.int64)
    sketch[:] = 0
    refused(sketch, width, twice, 3), refused(sketch, width, twice, 3)
    counters_of(sketch, 3)[:] |= 1  # which are gone when halved
    sketch[0] = due
    assert not refused(sketch, width, twice, 3) and sketch[0] == 0
    assert sorted(counters_of(sketch, 3)[counters_of(sketch, 3) > 0].tolist()) == [2] * 4  # three and one were four


@pytest.mark.parametrize("least", [2, 3])
def test_the_stated_error_holds_in_lookups_of_any_number_of_new_keys(seed, least):
    random = np.random.RandomState(seed)
    width = 1 << 14
    keys = random.permutation(10 ** 7).astype(np.int64)
    for n in (width // 4, width, 4 * width):
        sketch = np.zeros(admission.sketch_words(width, least), np.int64)
        for number in range(4):
            some, rows = keys[number * n:(number + 1) * n], np.full(n, -1, np.int32)
            rows[random.permutation(n)[:n // 10]] = 5
            new = rows < 0
            out = refused(sketch, width, some, least, rows)
            assert 1 - out[new].mean() < 0.23 and (rows[~new] == 5).all(), (n, number, 1 - out[new].mean())


def behind(random, known, new):
    """As a lookup has them whose first fields have been trained: positions of the new keys."""
    return np.arange(known, known + new)


def between(random, known, new):
    """As rows of fields have them one of which is new."""
    return np.arange(new) * (known // new + 1) + known // new


def in_runs(random, known, new):
    """As many fields of a few keys have them."""
    keys = np.arange(known + new)
    return keys[keys // 100 % (known // new + 1) == known // new]


@pytest.mark.parametrize("places", [behind, between, in_runs])
def test_the_stated_error_holds_wherever_new_keys_are(seed, places):
    random = np.random.RandomState(seed)
    width = 1 << 14
    for known, new in ((width, width // 4), (3 * width, width // 2), (width // 2, width // 2), (4 * width, width)):
        sketch = np.zeros(admission.sketch_words(width, 2), np.int64)
        for number in range(12 * width // new // 4):
            keys, rows = random.randint(0, 2 ** 62, known + new), np.full(known + new, 5, np.int32)
            at = places(random, known, new)
            rows[at] = -1
            before = rows.copy()
            count = call(admission.refuse_rare, sketch, width, keys, 2, rows, len(at))
            assert (rows == -2).sum() == count and (rows[before == 5] == 5).all()
            assert 1 - count / len(at) < 0.23, (known, new, number, 1 - count / len(at))


@pytest.mark.parametrize("part", [1, 2])
def test_the_stated_error_holds_of_lookups_after_which_nobody_looks(seed, part):
    """Each brings one key less than is due, or than half of that: the next one's are counted before anybody looks."""
    random = np.random.RandomState(seed)
    width = 1 << 18
    sketch, n = np.zeros(admission.sketch_words(width, 2), np.int64), admission.looked_at(width) // part - 1
    shares = [1 - refused(sketch, width, random.randint(0, 2 ** 62, n), 2).mean() for _ in range(80 * part)]
    assert max(shares) < 0.23 and max(shares) > 0.18, max(shares)


def test_each_key_is_counted_once_whatever_pieces_are_made_of_a_lookup(seed):
    random = np.random.RandomState(seed)
    width = 1 << 14
    for n in (1, 31, 1023, 1025, 2049, 4097, 9973, 3 * width + 5, 5 * width // 2):
        keys = np.unique(random.randint(0, 2 ** 62, n)).astype(np.int64)
        sketch, counts = np.zeros(admission.sketch_words(width, 70000), np.int64), []
        for lacking in (len(keys), 1, 4 * len(keys)):  # of counters that are never halved: no mean is 17,500
            rows = np.full(len(keys), -1, np.int32)
            rows[random.rand(len(keys)) < 0.1] = 7
            sketch[:] = 0
            assert call(admission.refuse_rare, sketch, width, keys, 70000, rows, lacking) == (rows != 7).sum()
            assert (np.isin(rows, [7, -2])).all()
            counts.append(counters_of(sketch, 70000).reshape(admission.ROWS, width).sum(axis=1))
            assert (counts[-1] == (rows != 7).sum()).all()


@pytest.mark.parametrize("least", [2, 5, 7, 8, 10, 15, 16, 20, 100, 300])
def test_as_many_keys_as_a_row_has_counters_are_all_admitted_in_time(seed, least):
    """However often they come before the last of them is."""
    width = 1 << 10
    keys = np.random.RandomState(seed).permutation(10 ** 6)[:width].astype(np.int64)
    sketch = np.zeros(admission.sketch_words(width, least), np.int64)
    rows = np.full(width, -1, np.int32)
    for number in range(1, least + 1):
        for some in np.array_split(np.arange(width), 4):
            found = rows[some]
            out = refused(sketch, width, keys[some], least, found)
            rows[some] = np.where(out | (found >= 0), np.where(out, -1, found), 1)  # who is admitted has a row
        assert number > 1 or (rows == -1).mean() > 0.7
    assert (rows == 1).all(), (rows == -1).sum()


@pytest.mark.parametrize("least", [2, 5, 10, 20, 100])
def test_a_key_that_comes_often_among_many_that_come_once_is_admitted(seed, least):
    random = np.random.RandomState(seed)
    width = 1 << 8
    sketch = np.zeros(admission.sketch_words(width, least), np.int64)
    noise, apart = random.permutation(10 ** 6) + 10, width * max(1, least // 8) // least
    for some in np.array_split(noise[:6 * least * apart], 6 * least):  # the sketch is as full as it becomes
        refused(sketch, width, some, least)
    came = 0
    while refused(sketch, width, np.array([1], np.int64), least):
        came += 1
        assert came <= 2 * least, came
        refused(sketch, width, noise[-came * apart:][:apart - 1], least)


def places_of(key, width, least):
    """Where the counters of a key are, one in each row."""
    sketch = np.zeros(admission.sketch_words(width, least), np.int64)
    refused(sketch, width, key, least)
    places = np.flatnonzero(counters_of(sketch, least))
    assert (counters_of(sketch, least)[places] == 1).all() and (places // width).tolist() == [0, 1, 2, 3]
    return places


@pytest.mark.parametrize("least", [2, 9, 200, 300, 70000])  # of counters of a byte, two and four
def test_counters_are_halved_while_they_are_too_full(seed, least):
    """Each without its neighbours: any numbers, few that are large, many that are small, and those at both bounds."""
    random = np.random.RandomState(seed)
    width, key, most = 1 << 9, np.array([random.randint(2 ** 62)], np.int64), 2 ** admission.counter_bits(least) - 1
    n, load, bound = admission.ROWS * width, least // 8 * 2, admission.ROWS * width * 43 // 64
    places, halved = places_of(key, width, least), []
    assert len(counters_of(np.zeros(admission.sketch_words(width, least), np.int64), least)) == n
    order = np.concatenate([places, np.setdiff1d(random.permutation(n), places)])  # those of the key are not 0 before
    for full, value in ((n, None), (n // 2, most), (n, 1), (n, load), (n, load + 1), (n, most), (0, 0),
                        (bound, most), (bound - 1, most), (4, most - 1)):
        before = np.zeros(n, np.int64)
        before[order[:full]] = value if value is not None else random.randint(0, most + 1, full, dtype=np.uint64)
        for counted in (width // 16 - 1, width // 16 - 2):
            sketch = np.zeros(admission.sketch_words(width, least), np.int64)
            counters_of(sketch, least)[:], sketch[0] = before, counted
            refused(sketch, width, key, least)
            expected, halvings = before.copy(), 0
            expected[places] = np.minimum(expected[places] + 1, most)
            while counted + 1 == width // 16 and 64 * (expected > 0).sum() >= 43 * n and expected.sum() >= load * n:
                expected, halvings = expected // 2, halvings + 1
            np.testing.assert_array_equal(counters_of(sketch, least), expected)
            assert sketch[0] == (0 if counted + 1 == width // 16 else counted + 1)
            halved.append(halvings)
    assert min(halved[1::2]) == max(halved[1::2]) == 0 and max(halved) > 1
    assert halved[2] == halved[16] == halved[18] == 0 and halved[14] > 0


@pytest.mark.parametrize("least", [2, 300, 70000])
def test_counters_are_added_up(seed, least):
    random, most = np.random.RandomState(seed), 2 ** admission.counter_bits(least) - 1
    sketch = np.zeros(admission.sketch_words(1 << 12, least), np.int64)
    counters = counters_of(sketch, least)
    for upto, share in ((most, 1), (most, 0.5), (1, 0.3), (most, 0), (0, 0)):
        counters[:] = np.where(random.rand(len(counters)) < share, random.randint(0, upto + 1, len(counters)), most * (
            upto == most))
        seen = same_bits(lambda: np.array(call(admission._look_at, sketch, least)))
        assert seen.tolist() == [(counters > 0).sum(), counters.sum(dtype=np.int64)]


@pytest.mark.parametrize("least", [2, 9, 300])
def test_what_is_due_is_halved_before_anything_is_counted(seed, least):
    width = 1 << 9
    due, load = admission.looked_at(width), max(1, least // 8 * 2)
    for counted, value, left in ((due, 2 * load, load // 2), (due - 1, 2 * load, 2 * load), (due, load - 1, load - 1)):
        sketch = np.zeros(admission.sketch_words(width, least), np.int64)
        counters_of(sketch, least)[:], sketch[0] = value, counted
        call(admission.halve_if_due, sketch, width, least)
        assert sketch[0] == (0 if counted == due else counted)
        np.testing.assert_array_equal(counters_of(sketch, least), left)


def test_draws_are_a_function_of_seed_table_key_and_tick(seed):
    random = np.random.RandomState(seed)
    keys = np.concatenate([EXTREMES, random.randint(-10 ** 12, 10 ** 12, size(20000))])
    for job, table, tick, ratio in ((1, 2 ** 64 - 3, 0, 0.3), (2 ** 63 + 5, 17, 12345, 0.75), (0, 0, 9, 1.0),
                                    (4, 4, 4, 0.0)):
        number = np.array(tick, np.int64)

        def drawn(keys, rows):
            count = call(admission.refuse_drawn, job, table, keys, number, ratio, rows)
            assert count == (rows == -2).sum()
            return rows

        rows = same_bits(lambda: drawn(keys, np.full(len(keys), -1, np.int32)))
        stream = mix64((mix64(job) + table) % 2 ** 64 ^ 0x9e3779b97f4a7c15)
        for place in random.randint(0, len(keys), 50).tolist() + list(range(len(EXTREMES))):
            word = mix64(mix64(stream + int(keys[place])) + tick) >> 11
            assert (rows[place] == -1) == (word / 2.0 ** 53 < ratio)
        assert abs((rows == -1).mean() - ratio) < 0.03
        order = random.permutation(len(keys))
        np.testing.assert_array_equal(drawn(keys[order], np.full(len(keys), -1, np.int32)), rows[order])
        assert (drawn(keys, np.full(len(keys), 3, np.int32)) == 3).all()
