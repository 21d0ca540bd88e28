"""Tables by way of TensorFlow's own Savers and hooks, and Keras.

Savers:
    table_saver        `tf.train.Saver` for graphs with tables
    held               what a Saver holds
    unheld_tables      and what it does not, of what it restores
    imported_saver     Savers of imported graphs
    defined_saver      Savers that are made of a SaverDef
    graph_checkpoints  `tf.train.Checkpoint` in graphs
    restored_tables    what is void when a table gets other rows
    prefix_saving      a whole checkpoint to a Saver's prefix, and back
    one_rank           tables among other variables, on one rank
    ranks_paths        which paths ranks may give to their Savers: one, or each its own
    whose_shards       what a rank of several saved for itself, told from one rank's whole run
    values_if_any      variables of which a session may not have all yet
    saved_alone        a word that one rank has saved it
    saved_names        the name under which a Saver saves, and what may stand there
    saved_only         what is saved, and restored to nothing
    left_out           what is saved, and not asked for when all else is restored
    caches             what TensorFlow alone cannot save: tables with a cache
    keras_weights      `save_weights` and `load_weights`

Hooks and Estimators:
    saver_listener   tables beside the checkpoints of TensorFlow's hook
    agreed_timer     its clock, the same on all ranks
    early_stopping   Estimators' early stopping, on all ranks after one step
    input_positions  how far each rank has read its data: what rank 0 must not save for all
    hooks_alike      whether all ranks are to save tables, asked before they begin
"""
