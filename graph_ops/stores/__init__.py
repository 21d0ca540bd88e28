"""A table's state on this rank: its description, its variables, and what is done with its rows.

    table            the description
    placement        which rank has which keys
    table_variables  the handles of its variables in a graph, by name
    store            `request_store`, the door: opens them to an operation that runs
    base_store       `Store`, what every kind of table offers behind it
    hashed_store     tables with an index: keys get rows as they come
    direct_store     tables without: a key says itself which row it is
    forgetful_store  tables that forget: rows leave, and not every key gets one
    forgetting       how they do, in a table's description
    eviction         which rows leave, and how
    repair           a table made whole after a fault in the middle of an insertion
    cached_store     tables with all rows in host memory, and a cache of them on the device
    cache            which, in a table's description
    cache_plan       what a batch needs whose keys are not all there
    lean_rows        rows there without their optimizers' slots, for lookups that nobody trains by
    host_tier        their rows in host memory
    host_column      what is there of one variable
    host_pieces      all of it, for optimizers that move every row
    crossing         a batch's rows on their way from and to the cache
    staged_crossing  over a GPU's bus, by way of its memory
    host_growth      rows there for new keys
    push_out         which rows leave the cache, and which the table
    whole_store      all rows of such a table, for what moves whole tables
    growth           more rows for a table that grows
    beside           what such a table has beside its rows, and the names by which growth finds it
    host_left        memory that the host can still give, before it does
    known_slots      the slots that optimizers have made for such tables
    slot_values      their slots assigned as a whole (operation)
    eager_names      names for eager variables, by which growth finds them (operation)
    initial          initial values of the variables (operations)
    distinct         keys or rows, each one once
    known_distinct   row numbers that are distinct for certain, because an operation of ours has made them
    key_types        keys that are too wide for their table
    row_checks       what a graph hands in, checked before rows change
    row_gradients    a sparse gradient made ready for a kernel
    kept_sums        where its sums have been left to the step that reads it
    clock            when rows changed: the stamps, and the step they are of
    stamps           operations on them
    clock_numbers    what is known of clocks without reading them
    shown_steps      the highest step that each table has shown, whatever was restored since
    figures          what is counted of lookups and exchanges
    step_times       which step a time was
    step_at          the operation that says it
"""
