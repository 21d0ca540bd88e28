"""What stands beside `tf.keras`, under SOK's dotted names."""
from sok1x.tf.keras import optimizers

__all__ = ["optimizers"]
