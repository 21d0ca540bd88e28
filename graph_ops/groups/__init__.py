"""Ops that are ready together, run together: lookups and gradients of many tables in as many kernels and
exchanges as of one.

    form           what an operation's grouped form is
    run            a group's requests on their way: what it leaves to their operation, and its end
    dense_lookup   the grouped forms of the dense lookup's operations: which requests may run together
    combined_lookup  and of the combined lookup's
    bag_weights    of the gradient to a combined lookup's weights
    distinct_rows  and of the one that makes the rows of many lookups distinct
    lookup_alone   what lookups do on one rank
    lookup_ranks   and on several, where rows go by all2all: forward
    lookup_hosts   and what is different by hosts
    lookup_ranks_backward  and backward
    lookup_ranks_sums  both, where bags go by reduce_scatter
    lookup_run     how: in C++, a few calls for a group
    lookup_facts          (C++ alone) what is known of a lookup before it runs
    lookup_places         (C++ alone) where it has what among its inputs and outputs
    lookup_buffer         (C++ alone) what is exchanged in one go
    lookup_members        (C++ alone) what a run's parts stand on: its members' tensors, memory, words of what is wrong
    lookup_run_kept       (C++ alone) what these keep, from one to the next
    lookup_run_alone      (C++ alone) the part of one rank
    lookup_run_ranks      (C++ alone) that of several
    lookup_run_hosts      (C++ alone) and what that has besides where exchanges go by hosts
    lookup_run_sums       (C++ alone) where bags go by reduce_scatter
    lookup_run_sums_backward  (C++ alone) and their gradients
    lookup_run_sooner     (C++ alone) what goes to other ranks, made first
    lookup_run_new        (C++ alone) keys that get rows
    lookup_run_forgetful  (C++ alone) tables that forget
    lookup_run_one_each   (C++ alone) bags with one key each
    lookup_run_ahead      (C++ alone) rows made distinct by the lookup itself
    ahead          (C++ alone) and what it has left of them
    lookup_run_gradients  (C++ alone) rows made distinct, and gradients
    kept_sums      (C++ alone) gradients that an optimizer's step adds up itself
    lookup_run_api        (C++ alone) what Python calls
    dense_sums     the form of dense tensors' sums over ranks, which is for C++
    updates        the grouped forms of optimizers' steps on rows
    update_run     (C++ alone) how they are taken
    lane           what of a step needs no Python, run by C++ as it comes out of the queue
    lane_op        (C++ alone) what it knows of an op
    lane_run       (C++ alone) what it runs together where no other rank has a part in it
    lane_ranks     (C++ alone) its part with other ranks: groups decided
    lane_ranks_announce  (C++ alone) announced before that
    lane_ranks_run  (C++ alone) and run
    choice         (C++ alone) by which exchange bags move more
    lane_ranks_sums  (C++ alone) where bags go by reduce_scatter
    lane_ranks_dense  (C++ alone) sums of dense tensors
    lane_ranks_figures  (C++ alone) what exchanges move, counted
    lane_ranks_hosts  (C++ alone) and what is different by hosts
    lane_ranks_messages  (C++ alone) how they talk with rank 0
    relay          (C++ alone) and pass on what others say to it
    relay_api      (C++ alone) what tests call of it
    meeting        (C++ alone) what it decides on rank 0
    meeting_api    (C++ alone) what Python, and tests, call of it
    leader_cost    (C++ alone) how long that takes, for benchmarks/coordinator.py
    brief          (C++ alone) what ranks tell each other of groups
    brief_words    (C++ alone) and what rank 0 says
    brief_numbers  (C++ alone) how both are written
    post           (C++ alone) messages, sent and received
    exchanges      (C++ alone) exchanges by MPI's and NCCL's own functions
    fork           (C++ alone) a second stream, for those that begin sooner
    expected       (C++ alone) how many requests that run together a session.run will bring, and whether gradients
    lane_api       (C++ alone) what Python calls of both
"""
