"""DeepRec's own optimizers: what stands in for one, and words for the others."""
from typing import Any

__all__ = ["AdagradDecayOptimizer", "AdagradDecayOptimizerV2", "AdamAsyncOptimizer", "AdamWOptimizer"]


def AdamAsyncOptimizer(learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                       use_locking: bool = False, name: str = "AdamAsync", apply_sparse_rmsprop: bool = False) -> Any:
    """`tf.contrib.opt.LazyAdamOptimizer`: Adam that leaves rows without a gradient as they are.

    DeepRec's lets workers step one by one; ranks step together here.

    Args:
        learning_rate: as for `tf.train.AdamOptimizer`, and so are the others.
        beta1: see there.
        beta2: see there.
        epsilon: see there.
        use_locking: see there.
        name: see there.
        apply_sparse_rmsprop: False.

    Returns:
        A tf.contrib.opt.LazyAdamOptimizer; in TensorFlow 2, which has none, sok1x's own.

    Raises:
        ValueError: apply_sparse_rmsprop is True.

    Example:
        >>> from sok1x import deeprec
        >>> type(deeprec.AdamAsyncOptimizer(0.01)).__name__
        'LazyAdamOptimizer'
    """
    if apply_sparse_rmsprop:
        raise ValueError("tf.train.AdamAsyncOptimizer: apply_sparse_rmsprop: got {!r}, expected False: it has no "
                         "counterpart in sok1x".format(apply_sparse_rmsprop))
    from sok1x.graph_ops.bridge import tensorflow_versions
    return tensorflow_versions.lazy_adam()(learning_rate, beta1, beta2, epsilon, use_locking, name)


def _refused(name: str, instead: str) -> Any:
    def make(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("tf.train.{}: it has no counterpart in sok1x; {} trains EmbeddingVariables".format(
            name, instead))

    make.__name__ = make.__qualname__ = name
    make.__doc__ = """Raises NotImplementedError: there is no {} here.

    Args:
        *args: as DeepRec has them.
        **kwargs: likewise.

    Raises:
        NotImplementedError: always.

    Example:
        >>> from sok1x import deeprec
        >>> deeprec.{}(0.01)
        Traceback (most recent call last):
        ...
        NotImplementedError: tf.train.{}: it has no counterpart in sok1x; {} trains EmbeddingVariables
    """.format(name, name, name, instead)
    return make


AdagradDecayOptimizer = _refused("AdagradDecayOptimizer", "tf.train.AdagradOptimizer")
AdagradDecayOptimizerV2 = _refused("AdagradDecayOptimizerV2", "tf.train.AdagradOptimizer")
AdamWOptimizer = _refused("AdamWOptimizer", "tf.train.AdamOptimizer or tf.contrib.opt.LazyAdamOptimizer")
