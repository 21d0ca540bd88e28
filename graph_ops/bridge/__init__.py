"""The one TensorFlow op, under several names, its Python side, and the thread that runs its requests.

A request's way through the files:

In a graph:
    library           loads the op, makes its nodes
    op_file           where the op's library for this TensorFlow lies; compiled if an installation lacks it
    build_op          how it is compiled
    op_types          what types of nodes there are
    configs           what a node is told: an operation's config, and its place
    plan              a graph's ops that communicate, in the order in which they were built
    registry          the operations by name; what an operation is

From TensorFlow's threads to ours (C++):
    bridge_signature  what a session.run is made of (a pass over its graph)
    bridge_passes     what the passes that change it have in common
    bridge_levels     how the nodes of its graph wait for each other
    bridge_fusing     ops that could run at the same time made one node (a pass after that one)
    bridge_fused_node  what that node is made of
    bridge_handing    many that read what it makes get it by way of one
    bridge_handles    variables' names, in place of nodes that give their handles
    bridge_packing    what a lookup takes from elsewhere made one tensor on the way (a pass after that one)
    bridge_parts      the ops that make it one, and several again
    bridge_present_values  a dense feature without what is missing: an op of its own, for feature columns
    bridge_told_step  how far the global step is, where a run trains no table: an op of its own
    told_step         makes it
    bridge_first      what lookups do not need put behind what they need (the last pass)
    bridge_types      the types of the op
    bridge            the op (bridge.cc), which makes a request; bridge.py: requests and tensors as Python sees them
    bridge_alone      what one rank that is alone need not ask for
    bridge_member     what is known of an op before it runs, and a run of it as a request
    bridge_fused      the requests of a node that is several ops
    bridge_foreign    what another process has built, and a server of TensorFlow's has brought here
    bridge_known      variables that have been found by their names
    bridge_timeline   when a request has come to what
    bridge_sessions   sessions that have kernels of ours
    bridge_shared     what there is one of in a process
    bridge_request    the request
    bridge_request_pool  memory for requests
    bridge_queue      the queue
    bridge_group      several requests that run as one
    bridge_finish     how requests end, and TensorFlow is told
    bridge_runner     where TensorFlow then goes on
    known_distinct    row numbers that are distinct for certain, because an operation of ours has made them
    bridge_clock      clocks that do not enter the kernel
    bridge_cuda       streams that follow one another, as CUDA's driver has them
    bridge_scratch    temporary memory that is used again, on the host
    bridge_shown_times  from what the clock shows, which may be set, to moments
    bridge_pins       which steps are in flight that have looked up rows of a table
    bridge_tier       host memory with all rows of tables whose variables are a cache
    bridge_calls      what the calls below share
    bridge_api        what Python calls, for one request
    bridge_bulk       and for many
    bridge_grow       and for variables that get larger
    bridge_reserved   host memory in which they do so in place
    bridge_named      eager variables, by names that we give them

The executor's thread:
    joined            whether there are ranks to run it among
    executor          takes requests in, announces them, runs them in the order that all ranks have
    asked             what other threads have it do between requests
    op_functions      the functions of the op library, typed
    bulk              the calls for many requests
    calls             what a node runs: its operation, config and place, decoded once
    contexts          sessions, numbered
    lane_ranks        what C++ announces, decides and runs with other ranks, and gives back
    together          requests sorted into groups; prepared, run and answered
    devices           the device of a request, the communicator of its memory
    kept_in_host_memory  a warning where an optimizer keeps a table from the GPU
    growing           larger buffers for variables, and variables found by name
    tiers             the host memory of tables with a cache
    arena             temporary memory of a request on a GPU
    pins              steps in flight, as an operation asks for them
    agreed            outcomes that ranks agree on inside an exchange
    errors            what an operation raises to fail its op
    forked            what is refused in a process that was forked from this one
    session_runs      threads that are inside session.run when the process ends
    timeline          when requests have come to what, in a file, if SOK1X_TIMELINE names one

Everywhere:
    callers           who calls, on the stack
    tensorflow_versions  what TensorFlow keeps to itself, and what differs between its versions
"""
