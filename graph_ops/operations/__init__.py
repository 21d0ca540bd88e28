"""What graphs are built of, one family of ops a file, each with its gradient beside it.

Lookups:
    embedding         the lookups that layers call
    dense_lookup      one row for each key
    local_lookup      the same in one rank's shard alone
    combined_lookup   the rows of each bag combined
    combined_config   what that is told, and leaves for its gradient
    bag_weights       what they are multiplied with
    sparse_batch      a SparseTensor or RaggedTensor as bags
    distinct_rows     the distinct rows of a lookup, for its gradient
    of_lookup         what follows a lookup
    lookup_gradient   the gradient of any lookup
    second_order      the gradient of that

Steps of optimizers:
    gradient_descent  gradient descent
    adam              Adam, lazy or for all rows

Exchanges that are not of tables:
    collectives       averages of gradients, broadcasts, sums of squared norms
    finite            whether gradients are finite on all ranks
    even_steps        whether any rank has another batch
    empty_batch       what a batch without samples is (no operation)
    branches          whether all ranks take the same branch
    gather_bytes      bytes of all ranks

Others:
    init_op           sok1x.Init and sok1x.init
    evictions         keys that leave tables that forget
    pinned_rows       whether row numbers are of rows that the run has looked up
    kept_gradients    whether dense gradients are still of the rows that they were made of
    assign_rows       rows of some keys overwritten
    rank_and_ranks    which rank of how many
    session_number    which session of all ranks'
    segments          distinct values, sums by segment, for any tensors
"""
