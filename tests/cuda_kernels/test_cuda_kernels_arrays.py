"""`Array`s: views of them, and what wrappers say of those that do not fit."""
import gc
import weakref

import numpy as np
import pytest

from sok1x.cuda_kernels import (
    adam,
    arrays,
    backend,
    cache_rows,
    combine,
    gather,
    hash_index,
    lookup,
    partition,
    segment_sum,
    unique,
)
from sok1x.cuda_kernels.arrays import Array, of_numpy


def new(dtype, *shape):
    return np.zeros(shape, dtype)


@pytest.mark.parametrize("dtype", sorted(arrays.ITEM_BYTES))
def test_an_array_says_what_numpy_says(dtype):
    for shape in ((), (0,), (5,), (4, 3), (2, 3, 5), (0, 7)):
        values = new(dtype, *shape)
        made = of_numpy(values)
        assert (made.pointer, made.dtype, made.shape, made.size) == (values.ctypes.data, dtype, shape, values.size)
        assert made.nbytes == values.nbytes and made[:-1] == arrays.array(made.pointer, dtype, shape)[:-1]
        assert made.row_bytes == int(np.prod(shape[1:], dtype=np.int64)) * values.itemsize


def test_views_are_those_of_numpy(seed):
    random = np.random.RandomState(seed)
    for dtype, shape in (("int64", (9,)), ("float32", (9, 4)), ("float16", (9, 2, 3))):
        values = random.randint(0, 100, shape).astype(dtype)
        made = of_numpy(values)
        for first, n in ((0, 9), (0, 0), (9, 0), (2, 5), (8, 1)):
            np.testing.assert_array_equal(made.some(first, n).numpy(), values[first:first + n])
        np.testing.assert_array_equal(made.front(3).read(), values[:3])
        assert made.front(9) is made
        words = made.words()
        np.testing.assert_array_equal(words.numpy().view(np.uint8).ravel(), values.view(np.uint8).ravel())
        assert words.shape == (9, values[0].nbytes // 4)
    assert of_numpy(values).as_rows(18, 3).shape == (18, 3)
    numbers = np.arange(6)
    of_numpy(numbers).at(4).write(np.array(77))
    assert numbers.tolist() == [0, 1, 2, 3, 77, 5]


def test_rows_that_are_not_adjacent():
    records = np.arange(40, dtype=np.int32).reshape(5, 8)
    field = Array(records.ctypes.data + 12, "int32", (5, 2), 10, stride=32)
    np.testing.assert_array_equal(field.numpy(), records[:, 3:5])
    np.testing.assert_array_equal(field.some(1, 3).read(), records[1:4, 3:5])
    out = new("int32", 3, 2)
    with backend.use(None):
        cache_rows.move(cache_rows.Moves(field, of_numpy(out), of_numpy(np.array([4, 0, 2], np.int32))))
    np.testing.assert_array_equal(out, records[[4, 0, 2], 3:5])


@pytest.mark.parametrize("view", [lambda a: a.some(3, 3), lambda a: a.some(-1, 2), lambda a: a.some(0, -1),
                                  lambda a: a.front(6)])
def test_a_view_beyond_the_end_is_refused(view):
    with pytest.raises(ValueError, match=r"of int32 \[5\], expected no more than there are"):
        view(of_numpy(new("int32", 5)))


def test_other_numbers_of_rows_and_words_are_refused():
    with pytest.raises(ValueError, match=r"float16 \[4, 3\].*four bytes"):
        of_numpy(new("float16", 4, 3)).words()
    with pytest.raises(ValueError, match=r"float32 \[4, 3\].*\[5, 2\]"):
        of_numpy(new("float32", 4, 3)).as_rows(5, 2)
    with pytest.raises(ValueError, match="contiguous"):
        of_numpy(new("float32", 4, 3).T)


def test_a_numpy_array_lives_as_long_as_what_is_made_of_it():
    values = new("int64", 6, 2)
    seen = weakref.ref(values)
    made = of_numpy(values)
    views = [made.some(1, 2), made.front(2), made.words(), made.as_rows(4, 3), made.at(3)]
    del values, made
    for view in views:
        assert view.owner is seen()
    del views, view
    assert seen() is None


def test_it_does_not_change():
    made = of_numpy(new("int32", 5))
    with pytest.raises(AttributeError):
        made.pointer = 0


I32, I64, F16, F32, F64 = "int32", "int64", "float16", "float32", "float64"
MISFITS = [  # wrapper, arguments as (dtype, *shape), what the message says
    (partition.partition, [(I32, 5), (I64, 2), (I64, 5), (I32, 5)], TypeError, r"keys: got int32 \[5\], .* int64"),
    (partition.partition, [(I64, 5), (I64, 2), (I64, 4), (I32, 5)], ValueError,
     r"grouped: got int64 \[4\], expected int64, 5 of them"),
    (unique.unique, [(F32, 5), (I64, 5), (I32, 5), ("uint8", 999)], TypeError, "float32.*int64, int32, uint32"),
    (unique.unique, [(I64, 5), (I64, 5), (I32, 5), ("uint8", 9)], ValueError, r"scratch: got uint8 \[9\].*at least"),
    (gather.gather, [(F32, 9, 4), (I32, 5), (F32, 5, 3)], ValueError, r"out: got float32 \[5, 3\], .*\[5, 4\]"),
    (gather.gather, [(F16, 9, 4), (I32, 5), (F32, 5, 4)], TypeError, r"float16 \[9, 4\] and float32 \[5, 4\]"),
    (gather.gather, [(F32, 9, 4), (I64, 5), (F32, 5, 4)], TypeError, r"index: got int64 \[5\], expected int32"),
    (gather.gather_through, [(F32, 9, 4), (I32, 3), (I32, 5), (F64, 5, 4)], TypeError, r"float64 \[5, 4\]"),
    (hash_index.find, [(I64, 8), (I64, 5), (I32, 5)], ValueError, r"index: got int64 \[8\], expected int64, 16"),
    (lookup.look_up, [(I64, 5), (I64, 8, 2), (F32, 9, 4), (I32, 5), (F32, 5, 2)], ValueError, r"out: .*\[5, 4\]"),
    (combine.combine, [(F32, 9, 4), None, (I32, 6), (I64, 3), False, (F32, 3, 4)], ValueError, r"out: .*\[2, 4\]"),
    (segment_sum.segment_sum, [("int8", 5, 4), (I32, 5), (F32, 3, 4)], TypeError, "int8.*float16, float32, float64"),
    (segment_sum.segment_sum, [(F64, 5, 4), (I32, 5), (F32, 3, 4)], TypeError, "out: got float32.*expected float64"),
    (adam.lazy_adam, [(F32, 5, 4), (I32, 5), [(F32,)] * 5, (F32, 9, 4), (F32, 9, 4), (F32, 9, 4)], ValueError,
     "scalars: got 5"),
    (adam.lazy_adam, [(F32, 5, 4), (I32, 5), [(F32,)] * 4, (F32, 9, 4), (F32, 8, 4), (F32, 9, 4)], ValueError,
     r"m: got float32 \[8, 4\]"),
]


@pytest.mark.parametrize("wrapper, arguments, kind, message", MISFITS)
def test_what_does_not_fit_is_refused_before_anything_is_done(wrapper, arguments, kind, message):
    memory = []

    def made(given):
        if isinstance(given, list):
            return [made(one) for one in given]
        if not isinstance(given, tuple):
            return given
        memory.append(np.full(given[1:], 7, given[0]))
        return of_numpy(memory[-1])

    with backend.use(None), pytest.raises(kind, match=message):
        wrapper(*made(arguments))
    assert all((one == 7).all() for one in memory)
    assert backend.counts().read() == []


def test_rows_of_another_length_do_not_move():
    moves = cache_rows.Moves(of_numpy(new(F32, 5, 4)), of_numpy(new(I64, 5, 3)))
    with pytest.raises(ValueError, match=r"float32 \[5, 4\].*int64 \[5, 3\].*16 bytes"):
        cache_rows.move(moves)
    with pytest.raises(ValueError, match=r"to: got float32 \[4, 4\].*at least 5 rows"):
        cache_rows.move(cache_rows.Moves(of_numpy(new(F32, 5, 4)), of_numpy(new(F32, 4, 4))))


def test_an_int_where_an_array_is_wanted_is_no_address():
    with pytest.raises(AttributeError):
        gather.gather(*[of_numpy(array).pointer for array in (new(F32, 3, 2), new(I32, 2), new(F32, 2, 2))])


def test_numpy_of_any_size_leaves_nothing_to_the_collector():
    values = np.arange(300.0)
    gc.collect()
    gc.disable()
    try:
        for n in range(1, 300):
            assert of_numpy(values[:n]).numpy()[-1] == n - 1
        assert gc.collect() < 50
    finally:
        gc.enable()
