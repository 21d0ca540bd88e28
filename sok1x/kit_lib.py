"""Facts about the kit and its surroundings, under SOK's module name."""


def in_tensorflow2() -> bool:
    """Whether the installed TensorFlow is a 2.x.

    Returns:
        False on TensorFlow 1.15, True on 2.x.

    Raises:
        ImportError: TensorFlow is not installed.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.kit_lib.in_tensorflow2() == tf.__version__.startswith("2.")
        True
    """
    import tensorflow as tf

    return not tf.__version__.startswith("1.")
