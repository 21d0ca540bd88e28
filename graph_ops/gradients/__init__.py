"""What the gradients in a graph are made of, and what must not become of them. Read off
the graph, before anything runs.

    marks            what is noted of a tensor, eager ones too
    shard_gradients  the gradients of tables' rows, by name
    table_means      whether these are sums over the ranks, or means
    provenance       whether a gradient is exchanged already, or a rank's own
    keeping          what keeps gradients for another moment, and what is brought there
    row_numbers      where row numbers come from: a lookup of the same run, or another one
    gradient_checks  gradients of tables that were exchanged, or clipped by a rank's own norm
"""
