"""Start, variables and scopes, under SOK's dotted names.

Joining the ranks:
    initialize          `sok.Init` and `sok.InitHook`
    joining             `sok.init`, at once
    scaffold            `sok.Scaffold`, for Estimators
    alike               whether all ranks run a graph alike
    broadcast           one rank's dense variables on all
    callbacks           the same, and equal metrics, for Keras' `fit`

Tables:
    embedding_variable  a table's shard
    graph_keys          in which collections tables are
    context_scope       SOK's scope around their optimizer

Rooms:
    options             what users say of tables
    tables              tables as variables
    eagerly             tables in eager execution
    frameworks          what TensorFlow, Keras and Horovod must know of them

Everywhere:
    no_copies           what `copy.deepcopy` and pickle are told
    thread_scope        what holds inside a block, in one thread and those that work for it
"""
