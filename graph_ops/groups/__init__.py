"""Ops that are ready together, run together: lookups and gradients of many tables in as many kernels and
exchanges as of one.

    form           what an operation's grouped form is
    batch          a group's requests through the bridge's calls for many; numbers that kernels leave for Python
    columns        the members' tables as columns of numbers
    dense_lookup   the grouped forms of the dense lookup's operations: which requests may run together
    dense_alone    what they do on one rank
    dense_run      how: in C++, a few calls for a group
    dense_run_ranks  (C++ alone) the part of several ranks
    dense_run_api  (C++ alone) what Python calls
    dense_ranks    and on several: forward
    dense_ranks_backward  and backward
    lookup_ranks   what lookups on several ranks share: keys to their owners, rows back
    combined_lookup  the grouped forms of the combined lookup's operations, and what they leave to single runs
    combined_alone   what they do on one rank
    combined_ranks   and on several, where rows go by all2all: forward and backward
    combined_gradients  their gradients as sums
    sparse_batches   the members' batches as bags
    buffers        memory for one exchange of all members' rows
    distinct_rows  the rows of many lookups made distinct
"""
