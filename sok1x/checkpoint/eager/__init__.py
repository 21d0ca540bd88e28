"""Checkpoints of eager programs.

    eager_run          all state of a program: its tables, and a tf.train.Checkpoint of the rest
    graph_rest         the rest from a graph's, by variables' names
    object_rest        or from an eager program's: whether it fits
    eager_checkpoints  `tf.train.Checkpoint` saves, on as many ranks as there are
    eager_restoring    and back
    eager_rows         what tables and slots have then
    eager_places       where, and whose shards they are
"""
