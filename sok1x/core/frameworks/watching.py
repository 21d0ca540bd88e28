"""What of TensorFlow, Keras and Horovod must know of tables: watched from the first one on."""
from sok1x.core.eagerly import forward_mode, function_marks, horovod_eager
from sok1x.core.frameworks import (
    aggregated_rows,
    branch_gradients,
    in_memory_evaluation,
    keras_attributes,
    loop_gradients,
    loss_scaling,
    moving_averages,
    newer_optimizers,
    other_steps,
    run_gradients,
    stamped_steps,
    summaries,
    supervisors,
    tape_gradients,
    warm_start,
)
from sok1x.core.tables import growing_steps, own_sessions, parameter_counts
from sok1x.graph_ops.stores.table import Table


def watch(table: Table) -> None:
    """Called before a table is made.

    Args:
        table: the description.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import watching
        >>> with tf.Graph().as_default():
        ...     watching.watch(sok.EmbeddingVariable(rows=8, dim=4).table)  # a second time: nothing
    """
    from sok1x.checkpoint.eager import eager_checkpoints  # which need tables
    from sok1x.checkpoint.savers import (  # likewise
        early_stopping,
        graph_checkpoints,
        input_positions,
        keras_weights,
        table_saver,
    )
    from sok1x.metrics import evaluation
    from sok1x.optimizers import branched_steps, unfit, zero_gradients
    from sok1x.serving import saving
    table_saver.watch()
    graph_checkpoints.watch()
    evaluation.watch()
    early_stopping.watch()
    input_positions.watch()
    saving.watch()
    keras_weights.watch()
    keras_attributes.watch()
    eager_checkpoints.watch()
    summaries.watch()
    supervisors.watch()
    warm_start.watch()
    newer_optimizers.watch()
    moving_averages.watch()
    other_steps.watch()
    horovod_eager.watch()
    own_sessions.watch()
    loop_gradients.watch()
    branch_gradients.watch()
    tape_gradients.watch()
    function_marks.watch()
    stamped_steps.watch()
    forward_mode.watch()
    unfit.watch()
    loss_scaling.watch()
    branched_steps.watch()
    zero_gradients.watch()
    if table.cache is not None or table.forgetting is not None:
        aggregated_rows.watch()
    if table.grows:
        growing_steps.watch()
        in_memory_evaluation.watch()
        parameter_counts.watch()
        run_gradients.watch()
