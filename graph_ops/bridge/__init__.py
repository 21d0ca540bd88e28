"""The one TensorFlow op, its Python side, and the thread that runs its requests."""
