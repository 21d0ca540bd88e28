"""The kernels: one NAME.cu per family and, beside it, NAME.py, its only wrapper. Here is where to find what.

Keys:
    unique         widened to int64; made distinct, numbered in order of first appearance (unique.cuh: on the host)
    partition      grouped by the rank that owns them; renumbered after that
    hash_index     the index from keys to rows: find, insert, clear (hash_index.cuh: its slots)
    index_keys     the index turned round: the key of each row
    index_rows     keys put into the index with rows of any number, and taken out of it
    admission      which new keys get rows: a sketch that counts keys, and draws
    lookup         a whole batch's rows found and, on the host, copied in the same pass (lookup.cuh)
    row_numbers    rows without an index, new rows numbered, missing ones left out, keys out of range

Rows:
    gather         read by row number
    scatter        written by row number
    row_init       initial values, by a counter-based generator (philox.cuh)
    update         gradient descent
    adam           Adam's step, for the rows with a gradient or for all
    stamps         when rows last changed, and the keys of those that have
    row_use        when rows were last asked for; free rows, listed and given out again
    cache_rows     rows of a table in host memory, on their way into a cache and back; which keys are where
    lowest_scores  the rows with the lowest scores
    fill           memory filled with one value
    host_memory    large pages for tables in host memory

Bags and sums:
    combine        where bags begin; the sum or mean of their rows
    bags           the bag of each key; the longest bag
    segment_sum    sums of rows by segment number, of bags' gradients too (segment_sum_gpu.cuh: the GPU's form)
    segments       segment numbers checked; each term's row of the sums
    dense          dense tensors around an all-reduce: copied, widened, narrowed, divided
    finite         whether numbers are finite

Steps of other kernels, on a GPU only:
    scan           running sums (scan.cuh: for use inside a kernel)
    sort           a stable sort
    counts         counts on their way to the host

Many tables in one launch: group_NAME does for a group of tables what NAME does for one; its wrapper takes a NumPy array
of records, one for each table, with pointers in them, and `Array`s of what lies beside these.
    groups           the records, rows that lie in several blocks (groups.cuh)
    group_bags       as combine.bag_offsets and bags.longest
    group_combine    as combine (bags.cuh, combine_host.h: what both share)
    group_parts      partial sums of bags from all ranks added up
    group_weights    gradients of what group_combine multiplies rows with (bag_divisor.cuh: what both divide by)
    group_find       as hash_index.find, row_numbers.direct and lookup
    group_initial    as row_init.initial_rows (row_init.cuh: what both share)
    group_gather     as gather
    group_unique     as unique
    group_partition  as partition (owners.cuh: who owns a key)
    group_pairs      keys with their bags, in the order in which they are sent
    group_sum        as segment_sum (segment_sum_terms.cuh, segment_sum_host.h: what both share)
    group_stamps     as stamps
    group_update     as update.descend and adam.lazy_adam (descend_rows.cuh, adam_rows.cuh: what both share)
    group_sum_update  sums and the step of an optimizer that takes them, in one pass
    group_steps      the same in C++, scratch memory and uploads included: for graph_ops' own C++ (group_steps.h)
    host_group_steps    (host_group_steps.cu alone; group_steps.py wraps it) the table of these steps; uploads, and what
                        comes back (host_group_device.h: the host and a GPU as the steps use them)
    host_group_lookups  (host_group_lookups.cu alone) the steps of lookups
    host_group_unique   (host_group_unique.cu alone) that of rows made distinct
    host_group_inserts  (host_group_inserts.cu alone) the steps of new keys, and of rows that are asked for
    host_group_sums     (host_group_sums.cu alone) those of sums
    host_group_updates  (host_group_updates.cu alone) those of optimizers
    host_group_sum_updates  (host_group_sum_updates.cu alone) those of both in one pass

What they stand on:
    arrays         what wrappers take: memory with its dtype and shape; checks that these fit each other
    backend        which device kernels run on; `declare` states a kernel's C types and its GPU threads, `kernels` calls
                   it; counts
    host           the host's library, and how many threads it uses
    host_threads   (host_threads.cu alone; host.py wraps it) the pool of threads (host_threads.h)
    build_host     compiles the host's library
    native         where native libraries lie; an installation from sources alone compiles its own
    gpu            a GPU: its stream, its memory, its counts
    gpu_side       a stream beside its own, for what takes long
    gpu_launch     kernels loaded, their parameters packed, each launched by one call into C
    host_launch    (host_launch.cu alone; gpu_launch.py wraps it) that call
    gpu_driver     what is asked of CUDA's driver besides
    gpu_compiler   compiles a family for the GPU at first use
    nvcc           what it compiles with: where that is, what it says of itself
    kernel_cache   keeps what it made

Headers: common.cuh is the subset of CUDA C++ that both compilers take; rows.cuh has loops over a row's floats, half.cuh
16-bit floats, half_rows.cuh rows of them; group_members.h has the records of group_NAME, group_sum_chunk.cuh how a GPU
adds terms up that are in order, group_sum_terms.cuh what these are, group_sum_update_rows.cuh how rows are moved by
their sums there, group_sum_host.h how members are shared out over the host's threads, group_update_step.cuh Adam's
numbers of a member, gpu_kernel.h a kernel that can be launched, unique_slots.h the size of unique's scratch table;
destinations.h splits rows that are written over the host's threads, host_pages.h saves page faults on outputs,
and host_prefetch.h asks for memory before it is read.

What a wrapper does. It takes `arrays.Array`s, all in memory that the current device reaches, and has sizes from their
shapes; None where a kernel can do without one. That dtypes are right and shapes fit each other it checks, in a third of
a microsecond for each: a TypeError or ValueError says what it got and what it expected. What numbers mean, as that keys
are distinct, is the caller's to know. Below it, in calls of `backend.kernels`, there are pointers alone; so there are
in the records of group_NAME. Where both sides need the same number, each says `as in FILE` of the other's, and a test
compares them.

* Device: `backend.current()`, the `gpu.Gpu` that `backend.use` has set for this thread, or None for the host.
* Stream: the host's kernels have run when a call returns, on the caller's thread and the pool's. A GPU's are then in
  line on `Gpu.stream`, on which all of this process's kernels for it run in order; memory must stay until they have.
* Counts: a number that Python needs is left in a place, an `Array`, from `backend.counts().take()`. `ask` says that
  counting is over and `read` gives the counts in the order in which they were taken, on a GPU after waiting for the
  stream up to there. What returns such a number waits, therefore; most such wrappers have a form without, `start` or
  `start_...`, whose caller hands in the place and reads many counts at once.
* Memory: the caller allocates what it passes and keeps it alive. What a wrapper needs besides on a GPU comes from
  `Gpu.allocate`, which is set by who runs a request, and is valid until the request ends. For `unique` the caller
  brings scratch, on either device.
"""
