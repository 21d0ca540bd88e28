"""How keys, rows and gradients travel between ranks, one way a file.

`choice` picks an `exchange.Exchange`: `alone`, `all2all` or `reduce_scatter`. What a run has and leaves is in `lookup`,
what is made of rows in `layouts`; `asked` is the requester's side, `row_sums` the owner's end of a gradient.
"""
