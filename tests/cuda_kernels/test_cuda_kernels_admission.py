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
    counts = dict.fromkeys(keys.tolist(), 0)
    for _ in range(least + 3 if least < 200 else least + 1):
        batch = np.unique(random.permutation(keys)[:-3])
        out = refused(sketch, width, batch, least)
        for key, is_out in zip(batch.tolist(), out):
            counts[key] += 1
            assert is_out == (counts[key] < least), (key, counts[key])
    assert sketch[0] == sum(counts.values())


def test_keys_with_rows_are_neither_counted_nor_refused(seed):
    keys = np.random.RandomState(seed).permutation(1000).astype(np.int64)
    sketch = np.zeros(admission.sketch_words(8192, 2), np.int64)
    rows = np.where(keys % 3 == 0, 7, -1).astype(np.int32)

    def run():
        sketch[:] = 0
        found = rows.copy()
        refused(sketch, 8192, keys, 2, found)
        return found, sketch

    found, _ = same_bits(run)
    assert sketch[0] == (keys % 3 != 0).sum()
    np.testing.assert_array_equal(found[keys % 3 == 0], 7)
    assert (found[keys % 3 != 0] == -2).mean() > 0.95
    call(admission.forget_refused, found)
    np.testing.assert_array_equal(found == -1, (rows == -1) & (found != 7))


def test_the_stated_error_holds_and_counts_are_halved_before_the_sketch_fills(seed):
    random = np.random.RandomState(seed)
    width, batch = 1 << 12, 256
    sketch = np.zeros(admission.sketch_words(width, 2), np.int64)
    keys = random.permutation(10 ** 7)[:64 * batch].astype(np.int64)  # none twice: whoever is admitted is so in error
    shares = []
    for number in range(64):
        before = int(sketch[0])
        assert before <= width
        out = refused(sketch, width, keys[number * batch:(number + 1) * batch], 2)
        shares.append((before, 1 - out.mean()))
        assert sketch[0] == (0 if before >= width else before) + batch
    early = np.mean([share for before, share in shares[:8]])
    late = np.mean([share for before, share in shares[:16] if before >= width // 2])
    assert early < 0.03 and late < 0.2, (early, late)
    # Counters are halved, not cleared: what was counted twice still counts once.
    twice = np.array([-5], np.int64)
    sketch[:] = 0
    refused(sketch, width, twice, 3), refused(sketch, width, twice, 3)
    sketch[0] = width
    assert refused(sketch, width, twice, 3) and sketch[0] == 1
    assert not refused(sketch, width, twice, 3)


@pytest.mark.parametrize("least", [200, 300, 70000])  # of counters of a byte, two and four
def test_counters_as_wide_as_needed(seed, least):
    """What one of them has seen is halved without its neighbours', and a key that comes seldom gets there."""
    bits, width = admission.counter_bits(least), 64
    sketch = np.zeros(admission.sketch_words(width, least), np.int64)
    counters = sketch[1:].view({8: np.uint8, 16: np.uint16, 32: np.uint32}[bits])
    assert len(counters) == admission.ROWS * width
    random = np.random.RandomState(seed)
    counters[:] = before = random.randint(0, 2 ** bits, len(counters), dtype=np.uint64).astype(counters.dtype)
    sketch[0] = limit = width * (least // 8)
    key = np.array([random.randint(2 ** 62)], np.int64)
    refused(sketch, width, key, least)
    raised = counters.astype(np.int64) - before // 2
    assert sketch[0] == 1 and sorted(raised.tolist()) == [0] * (len(counters) - 4) + [1] * 4
    assert (raised.reshape(admission.ROWS, width).sum(1) == 1).all()
    # Full counters stay so; one below them is raised.
    for seen in (2 ** bits - 1, 2 ** bits - 2):
        counters[:], sketch[0] = seen, 0
        refused(sketch, width, key, least)
        assert (counters.reshape(admission.ROWS, width).max(1) == 2 ** bits - 1).all()
        assert (counters == seen).sum() >= len(counters) - 4
    # One key among many others: as many lookups as it must have, without their making it forgotten.
    sketch[:], others = 0, 1000 + np.arange(width // 4)
    sketch[0] = limit - 3 * (1 + len(others))
    for number in range(12):
        out = refused(sketch, width, np.concatenate([key, others + number * width]), least)
        assert out.all()
    # 3 of 12 were halved; what other keys have added to all four counters comes on top.
    shown = min(counters.reshape(admission.ROWS, width)[row, column]
                for row, column in enumerate(np.argmax(raised.reshape(admission.ROWS, width), 1)))
    assert 9 + 1 <= shown


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
