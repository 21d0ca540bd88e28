"""Checkpoints in a session, all ranks together.

A graph's state:
    tables       a graph's state: tables, and all else
    transfer     the op that moves a shard, and its errors
    preparing    tables made ready for a restore
    ranks        what ranks tell each other
    talk         the same between steps, and where there is no graph
    saving       all state into a checkpoint
    restoring    and back
    dense_saver  what is not in shards
    restored_sessions  which sessions have been restored, and to which step, or half of them
    rows_anew    rows that the next keys would find as they are
    slots_anew   slots of rows that are to be those of other keys

What calls them:
    manager      `sok.CheckpointManager`, for a loop of one's own
    saver_hook   `sok.CheckpointSaverHook`
    schedule     when to save
    told_to_end  where all ranks stop and save, when they are told to end
    stop_hook    the same for sessions that TensorFlow's hooks save
"""
