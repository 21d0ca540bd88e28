"""Ops of a Saver that save all of its variables, and restore all but some: a checkpoint may not have these."""
from typing import Any, Iterable

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import saver as tensorflow_saver


class LeavingOut(tensorflow_saver.BulkSaverBuilder):
    """The `builder` of such a Saver.

    Args:
        left_out: the names in the checkpoint of what is not restored.
        write_version: the format, as `tf.train.Saver` takes it.
    """

    def __init__(self, left_out: Iterable[str], write_version: Any = tf.train.SaverDef.V2) -> None:
        super().__init__(write_version)
        self._left_out = frozenset(left_out)

    def _AddRestoreOps(self, filename_tensor: Any, saveables: Any, *arguments: Any, name: str = "restore_all",
                       **options: Any) -> Any:
        restored = [saveable for saveable in saveables if saveable.name not in self._left_out]
        if not restored:  # of a device that has nothing else
            return tf.no_op(name=name)
        return super()._AddRestoreOps(filename_tensor, restored, *arguments, name=name, **options)
