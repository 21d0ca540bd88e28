"""Tables as variables.

In a graph:
    shard_variable    a variable whose value is a rank's own
    stamped_variable  one that knows when its rows changed
    placed_variable   one that a user makes, and places
    static_variable   one of these that has all rows from the start
    table_parts       the variables beside the rows
    table_root        where in a graph they are made
    scoped_tables     under `tf.variable_scope`
    sessions          which session runs their ops
    own_sessions      sessions of the library's own, beside the program's

That grow:
    growing_shape     V in their static shape
    growing_slots     optimizers' slots of them
    slot_beginnings   what these begin with
    rows_alone        rows without the keys that have them: refused
    growing_steps     steps that wait for the gradient
    parameter_counts  how many numbers Keras counts
"""
