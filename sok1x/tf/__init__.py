"""What stands beside `tf`, under SOK's dotted names."""
from sok1x.tf import keras

__all__ = ["keras"]
