"""A table's state on this rank: its description, its variables, and what is done with its rows.

`table.Table` describes; `table_variables.TableVariables` has the handles in a graph; `store.request_store` opens them
to an operation that runs, as a `base_store.Store` of the table's kind.
"""
