"""A checkpoint on disk: a table's shard in files, and the folder or prefix that has them all.

A table's shard:
    shard_names       names of a table's parts, and of their files
    shard_header      a file's first bytes
    shard_writer      writes a file
    stream_writer     a stretch of a file, from its beginning to its end
    shard_reader      reads one
    writing           a table's rows to files
    reading           a table's rows from those of any number of ranks
    admission_counts  which keys have been asked for, from those
    former_names      what tables were called in earlier releases
    slot_names        slots that optimizers call otherwise in a graph and eagerly
    strays            keys that several ranks had
    table_rows        a whole table of all ranks, in the order in which it is exported

Whole checkpoints:
    manifest          manifest.json: what a checkpoint consists of
    checkpoint_files  an open checkpoint
    folders           a folder a step
    publishing        how it gets its name
    giving_way        what gives way to it, or was left: its removal
    retiring          which of them stay, and the removal of the others
    dumps             what is a dump's there
    folder_lock       who may save there
    prefixes          the same under the prefixes that TensorFlow's Savers save to
    links             the names there of what TensorFlow has written into the folder
    urls              paths that are URLs
    open_file         files opened and read with care
    outputs           files that appear when they are whole
    strict_json       JSON as our files use it
"""
