"""Tables in eager execution.

    eager           the graph of a table's ops, and what runs them
    eager_slots     names of variables, and slots
    eager_clipping  what must not be clipped
    function_marks  what is known of gradients, in and out of a tf.function
    even_batches    data of different length
    forward_mode    what a ForwardAccumulator cannot differentiate
    horovod_eager   what Horovod must leave alone
    strategies      `tf.distribute`
    trace_types     tables as arguments of a tf.function
"""
