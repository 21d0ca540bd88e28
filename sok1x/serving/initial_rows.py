"""Initial rows of keys by TensorFlow's own ops: what cuda_kernels/row_init.cuh computes, bit for bit on the host.

Unsigned 32-bit words are int64 numbers in [0, 2^32): TensorFlow has no arithmetic for anything unsigned that is as
wide. Products wrap around at 64 bits in two's complement, whose high word is what remains after a shift. Floats go
through the operations that the kernel has, in its order. Square roots are taken in float64 and rounded, which is exact;
TensorFlow's of float32 may be an approximation.
"""
import functools
from typing import Any, List, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import function

RANDOM = ("uniform", "normal", "truncated_normal")  # kinds that differ from key to key

_WORD, _LONG = 0xFFFFFFFF, (1 << 64) - 1
_ROUNDS = 10


class Draw(NamedTuple):
    """What is drawn for a table: a `Draw` of row_init.cuh.

    Attributes:
        stream: the table's key of the generator, 64 bits.
        kind: one of `RANDOM`.
        a, b, pool: see `graph_ops.stores.table.Initializer`.
    """

    stream: int
    kind: str
    a: float
    b: float
    pool: int = 0

    def numbers(self) -> Tuple[np.ndarray, np.ndarray]:
        """As the functions below take them: words int64 [2], and float32 [4], a, b, b - a, and the largest of them."""
        a, b = np.float32(self.a), np.float32(self.b)
        most = np.nextafter(b, a, dtype=np.float32) if a < b else a
        return (np.array([self.stream & _WORD, self.stream >> 32], np.int64),
                np.array([a, b, b - a, most], np.float32))


def stream_of(seed: int, table: int) -> int:
    """The generator's key for a table; see row_init.cuh. table: `graph_ops.stores.table.Table.identity`."""
    return _mix64((_mix64(seed & _LONG) + table) & _LONG)


def _mix64(x: int) -> int:
    """As common.cuh has it."""
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & _LONG
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & _LONG
    return x ^ (x >> 31)


def filled(rows: tf.Tensor, keys: tf.Tensor, missing: tf.Tensor, draw: Draw) -> tf.Tensor:
    """Rows with the initial ones in place of those that are missing, if any is; else they cost next to nothing.

    Args:
        rows: float32 [K, D]. keys: int64 [K]. missing: bool [K].
    """
    words, numbers = draw.numbers()
    if draw.pool:
        keys = tf.math.floormod(keys, tf.constant(draw.pool, tf.int64))
    arguments = [rows, keys, missing, tf.constant(words), tf.constant(numbers)]
    fill, leave = _branches(draw.kind)
    made, = tf.raw_ops.If(cond=tf.reduce_any(missing), input=arguments, Tout=[tf.float32], then_branch=fill,
                          else_branch=leave, output_shapes=[])
    made.set_shape(rows.shape)
    return made


@functools.lru_cache(None)
def _branches(kind: str) -> Tuple[Any, Any]:
    """Functions, so that nothing of them is looked at where no key is missing, and tables share them."""
    types = [tf.float32, tf.int64, tf.bool, tf.int64, tf.float32]

    @function.Defun(*types, func_name="sok1x_initial_rows_" + kind)
    def fill(rows: Any, keys: Any, missing: Any, words: Any, numbers: Any) -> tf.Tensor:
        places = tf.raw_ops.Where(condition=missing)
        made = initial_rows(tf.gather(keys, places[:, 0]), words, numbers, kind, tf.shape(rows)[1])
        return tf.tensor_scatter_nd_update(rows, places, made)

    @function.Defun(*types, func_name="sok1x_initial_rows_none")
    def leave(rows: Any, keys: Any, missing: Any, words: Any, numbers: Any) -> tf.Tensor:
        return tf.identity(rows)

    return fill, leave


def initial_rows(keys: tf.Tensor, words: tf.Tensor, numbers: tf.Tensor, kind: str, dim: tf.Tensor) -> tf.Tensor:
    """float32 [K, D] of keys int64 [K]. words, numbers: of a `Draw`, whose kind is `kind`. dim: int32 []."""
    blocks = (dim + 3) // 4
    block = tf.range(tf.cast(blocks, tf.int64))[tf.newaxis]
    keys = keys[:, tf.newaxis]
    # [K, blocks]: column 4 j + c of a row is number c of its block j.
    zeros = tf.zeros_like(keys + block)
    counter = [_low(keys) + zeros, _high(keys) + zeros, block + zeros]
    first = _words(counter, zeros, words)
    if kind == "uniform":
        scaled = [tf.cast(_shifted(word, 8), tf.float32) * np.float32(2.0 ** -24) for word in first]
        values = tf.minimum(numbers[0] + numbers[2] * tf.stack(scaled, 2), numbers[3])
    else:
        values = _normal(first)
        if kind == "truncated_normal":
            values = _drawn_again(values, counter, words)
        values = numbers[0] + numbers[1] * values
    return tf.reshape(values, [-1, 4 * blocks])[:, :dim]


def _drawn_again(values: tf.Tensor, counter: List[tf.Tensor], words: tf.Tensor) -> tf.Tensor:
    """Deviates beyond two standard deviations are those of the next attempt."""

    def beyond(values: tf.Tensor) -> tf.Tensor:
        return tf.logical_or(values > 2.0, values < -2.0)

    def again(attempt: tf.Tensor, values: tf.Tensor) -> Any:
        made = _normal(_words(counter, attempt + tf.zeros_like(counter[0]), words))
        return attempt + 1, _either(beyond(values), made, values)

    first = tf.constant(1, tf.int64)
    return tf.while_loop(lambda _, values: tf.reduce_any(beyond(values)), again, [first, values],
                         shape_invariants=[first.shape, values.shape])[1]


def _normal(words: List[tf.Tensor]) -> tf.Tensor:
    """float32 [K, blocks, 4] from four words [K, blocks]."""
    values = []
    for pair in (0, 2):
        square = _minus_two_log(_shifted(words[pair], 8) + 1)
        radius = tf.cast(tf.sqrt(tf.cast(square, tf.float64)), tf.float32)
        cosine, sine = _cos_sin(words[pair + 1])
        values += [radius * cosine, radius * sine]
    return tf.stack(values, 2)


def _minus_two_log(m: tf.Tensor) -> tf.Tensor:
    """-2 ln(m / 2^24), as the kernel's function of that name."""
    bits = tf.bitcast(tf.cast(m, tf.float32), tf.int32)
    fraction = tf.bitwise.bitwise_and(bits, 0x7fffff)
    high = tf.cast(fraction > 0x3504f3, tf.int32)
    f = tf.bitcast(tf.bitwise.bitwise_or(fraction, 0x3f800000 - high * (1 << 23)), tf.float32)
    e = tf.cast(tf.bitwise.right_shift(bits, 23) - 127 + high - 24, tf.float32)
    s = (f - 1.0) / (f + 1.0)
    q = s * s
    third, fifth, seventh, ninth = (np.float32(1) / np.float32(n) for n in (3, 5, 7, 9))
    series = 1.0 + q * (third + q * (fifth + q * (seventh + q * ninth)))
    return -2.0 * (2.0 * s * series + e * np.float32(0.693147181))


def _cos_sin(x: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Cosine and sine of 2 pi (x / 2^32 - 1/8), as the kernel's function of that name."""
    inside = tf.cast(tf.bitwise.bitwise_and(_shifted(x, 6), tf.constant(0xffffff, tf.int64)), tf.float32)
    t = (inside * np.float32(2.0 ** -24) - 0.5) * np.float32(1.57079633)
    q = t * t
    one = np.float32(1)
    c2, c4, c6, c8, c10 = (one / np.float32(n) for n in (2, 24, 720, 40320, 3628800))
    s3, s5, s7, s9 = (one / np.float32(n) for n in (6, 120, 5040, 362880))
    c = 1.0 - q * (c2 - q * (c4 - q * (c6 - q * (c8 - q * c10))))
    s = t - t * q * (s3 - q * (s5 - q * (s7 - q * s9)))
    quadrant = _shifted(x, 30)
    odd = tf.equal(tf.bitwise.bitwise_and(quadrant, tf.ones_like(quadrant)), 1)
    cosine, sine = _either(odd, s, c), _either(odd, c, s)
    cosine_below = tf.logical_or(tf.equal(quadrant, 1), tf.equal(quadrant, 2))
    return _either(cosine_below, -cosine, cosine), _either(quadrant >= 2, -sine, sine)


def _words(counter: List[tf.Tensor], attempt: tf.Tensor, words: tf.Tensor) -> List[tf.Tensor]:
    """Philox4x32-10's four words, each [K, blocks]: see cuda_kernels/philox.cuh."""
    c0, c1, c2, c3 = counter[0], counter[1], counter[2], attempt
    k0, k1 = words[0], words[1]
    for _ in range(_ROUNDS):
        p0 = c0 * tf.constant(0xD2511F53, tf.int64)
        p1 = c2 * tf.constant(0xCD9E8D57, tf.int64)
        c0, c1, c2, c3 = (tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(_high(p1), c1), k0), _low(p1),
                          tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(_high(p0), c3), k1), _low(p0))
        k0, k1 = _low(k0 + 0x9E3779B9), _low(k1 + 0xBB67AE85)
    return [c0, c1, c2, c3]


def _either(condition: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """x where the condition holds, else y: the op that every release of TensorFlow has."""
    return tf.raw_ops.Select(condition=condition, x=x, y=y)


def _low(x: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.bitwise_and(x, tf.constant(_WORD, tf.int64))


def _high(x: tf.Tensor) -> tf.Tensor:
    return _low(_shifted(x, 32))


def _shifted(x: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.right_shift(x, tf.constant(bits, tf.int64))
