"""A table's shard to files and from files.

    shard_transfer  operations that hand a shard to an object of this process, and take one from it (checkpoints)
    shard_save      what the first does
    shard_load      what the second does
    used_rows       rows in use, in turn
    shard_parts     rows by pieces, on their way through the host's memory
    keyed_files     which rows of files of all ranks are a rank's
    distinct_keys   whether a key comes twice in a file
    sok_files       SOK 1.x's files of a table
    sok_written     these while they are written
    sok_dump        a table of all ranks to them
    sok_restore     and from them
    sok_values      a table of all ranks from tensors
"""
