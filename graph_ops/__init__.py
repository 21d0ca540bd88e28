"""The kernels as TensorFlow graph ops.

`bridge.cc` registers one asynchronous op, `bridge.py` is its Python side, and `executor.py` the one thread that runs
the requests. Every op family has a file of its own, with its gradient beside it: `dense_lookup.py`,
`combined_lookup.py`, `collectives.py`, `initial.py`, `init_op.py`. Nothing is loaded or started by the import.
"""
