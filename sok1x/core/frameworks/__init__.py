"""What TensorFlow, Keras and Horovod must know of tables.

How they are told:
    watching                who is told, with the first table
    wrapping                how: functions of ours around theirs

Optimizers:
    slots                   whose an optimizer's slots are
    newer_optimizers        Keras' newer optimizers
    unfit_newer_optimizers  those that are not right for tables
    loss_scaling            TensorFlow's own loss scaling
    keras_loss_scaling      Keras' loss scaling
    moving_averages         averages of variables
    other_steps             steps that train no table
    stamped_steps           steps by gradients that no lookup has made

Gradients:
    loop_gradients          gradients of loops
    branch_gradients        gradients of branches that are not taken
    aggregated_rows         gradients that TensorFlow puts together
    tape_gradients          gradients that tapes make of the whole of a table
    dense_gradients         those of whole tables, and how many rows have left since
    counted_calls           the same of gradients that functions' calls make
    kept_steps              steps by these, of all ranks or of none
    run_gradients           gradients that belong to one session.run

Layers, models and values:
    keras3                  what is said of Keras 3's layers and optimizers
    keras_attributes        tables that are attributes of Keras' layers and models
    free_slot_rows          optimizers' slots of rows that then have no key
    weights_owner           whose shards a list of weights has
    placement_notes         how their rows were dealt out, there and in checkpoints
    numbered_rows           functions that take rows by their numbers
    warm_start              values from checkpoints
    estimator_clusters      Estimators in a cluster of TF_CONFIG's
    in_memory_evaluation    what an Estimator's InMemoryEvaluatorHook cannot copy
    summaries               summaries of rank 0 alone
    supervisors             those of tf.train.Supervisor
"""
