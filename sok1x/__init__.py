"""sok1x: model-parallel embeddings for TensorFlow 1.15, under SparseOperationKit's names."""

__version__ = "0.1.0"
