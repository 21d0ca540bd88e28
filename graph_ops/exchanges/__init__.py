"""How keys, rows and gradients travel between ranks, one way a file.

    choice          which way a lookup goes
    sizes           how much each would move
    exchange        what every way does
    alone           one rank
    all2all         distinct keys to their owners, rows back
    direct          of all2all: each rank with every other
    by_hosts        of all2all: inside each host, then between hosts
    reduce_scatter  keys with their bags to the owners, partial sums back
    lookup          a run of a lookup, and one of its gradient: what it has, tells the other ranks, and leaves
    layouts         what is made of rows: one for each position, or one for each bag
    asked           the requester's side: distinct keys, by owner
    row_sums        the owner's end of a gradient
    ties            what ties a gradient to its lookup
    training        whether a run trains
"""
