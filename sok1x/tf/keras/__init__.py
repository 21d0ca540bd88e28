"""What stands beside `tf.keras`, under SOK's dotted names."""
from sok1x.tf.keras import mixed_precision, optimizers

__all__ = ["mixed_precision", "optimizers"]
