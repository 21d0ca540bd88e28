"""The kernels as TensorFlow graph ops. Nothing is loaded or started by the import.

    bridge       one asynchronous TensorFlow op (C++), the one thread that runs its requests, plans, configs
    stores       a table on this rank: its description, its variables, and the one door to them
    exchanges    the ways of keys, rows and gradients between ranks
    groups       requests of many tables that run together
    operations   what graphs are built of: lookups and their gradients, optimizers' steps, collectives, ...
    gradients    what gradients in a graph are made of, and what must not become of them
    transfer     a table's shard to files and from files

An operation is registered under ROOM.MODULE.OP, so that its name leads to its file; its gradient stands beside it. All
operations, and how the rooms work together: docs/how_it_works.md.
"""
