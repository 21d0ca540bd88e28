"""The op library of the TensorFlow that this process has: where it lies, and compiled if an installation lacks it."""
import tempfile

import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import build_host, native
from sok1x.graph_ops.bridge import build_op


def path():
    """The library's path, whether it is there or not."""
    return native.place(build_op.HERE, build_op.library_name(tf.__version__, tf.sysconfig.CXX11_ABI_FLAG),
                        build_op.sources)


def compile_missing(wanted, force=False):
    """Compiles the library into `wanted` if it is not there and this is no checkout, or if `force`d.

    Returns:
      Whether it was compiled.

    Raises:
      RuntimeError, OSError: it cannot be; the message says why.
    """
    def make(output):
        with tempfile.TemporaryDirectory(prefix="sok1x_op_") as objects:
            build_op.build(output, tf.__version__, tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags(),
                           build_host, objects, native.compiler())

    return native.ensure(wanted, "its op for TensorFlow {}".format(tf.__version__), make, force)
