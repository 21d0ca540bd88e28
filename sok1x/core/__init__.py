"""Start, variables and scopes, under SOK's dotted names.

Joining the ranks:
    initialize          `sok.Init` and `sok.InitHook`
    joining             `sok.init`, at once
    scaffold            `sok.Scaffold`, for Estimators
    alike               whether all ranks run a graph alike
    broadcast           one rank's dense variables on all
    callbacks           the same, and equal metrics, for Keras' `fit`

What users say of tables:
    given_numbers       numbers
    given_tables        tables
    arguments           words, dtypes, True and False
    capacities          how many rows
    forgetting_options  which rows leave, and which keys get none
    cache_options       rows in host memory, and a cache
    cached_wholes       ops on the whole of a variable that is a cache: refused
    initializers        how rows begin
    initial_values      likewise, where all of them are given
    key_types           ids as keys

Tables as variables:
    shard_variable      a variable whose value is a rank's own
    stamped_variable    one that knows when its rows changed
    embedding_variable  a table's shard
    placed_variable     one that a user makes, and places
    static_variable     one of these that has all rows from the start
    table_parts         the variables beside the rows
    table_root          where in a graph they are made
    scoped_tables       under `tf.variable_scope`
    graph_keys          in which collections they are
    context_scope       SOK's scope around their optimizer
    sessions            which session runs their ops
    own_sessions        sessions of the library's own, beside the program's

Tables that grow:
    growing_shape       V in their static shape
    growing_slots       optimizers' slots of them
    rows_alone          rows without the keys that have them: refused
    slot_beginnings     what these begin with
    growing_steps       steps that wait for the gradient
    parameter_counts    how many numbers Keras counts

In eager execution:
    eager               the graph of a table's ops, and what runs them
    eager_slots         names of variables, and slots
    eager_steps         steps by gradients that no lookup has made
    eager_clipping      what must not be clipped
    function_marks      what is known of gradients, in and out of a tf.function
    forward_mode        what a ForwardAccumulator cannot differentiate
    horovod_eager       what Horovod must leave alone
    in_memory_evaluation  what an Estimator's InMemoryEvaluatorHook cannot copy
    strategies          `tf.distribute`
    trace_types         tables as arguments of a tf.function

What TensorFlow, Keras and Horovod must know of tables:
    watching            who is told, with the first table
    wrapping            how: functions of ours around theirs
    slots               whose an optimizer's slots are
    newer_optimizers    Keras' newer optimizers
    unfit_newer_optimizers  those that are not right for tables
    loss_scaling        TensorFlow's own loss scaling
    keras_loss_scaling  Keras' loss scaling
    keras3              what is said of Keras 3's layers and optimizers
    keras_attributes    tables that are attributes of Keras' layers and models
    weights_owner       and whose shards a list of weights has
    loop_gradients      gradients of loops
    branch_gradients    gradients of branches that are not taken
    aggregated_rows     gradients that TensorFlow puts together
    tape_gradients      gradients that tapes make of the whole of a table
    run_gradients       gradients that belong to one session.run
    moving_averages     averages of variables
    numbered_rows       functions that take rows by their numbers
    warm_start          values from checkpoints
    summaries           summaries of rank 0 alone

Everywhere:
    thread_scope        what holds inside a block, in one thread
"""
