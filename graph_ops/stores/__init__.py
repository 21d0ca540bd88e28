"""A table's state on this rank: its description, its variables, and what is done with its rows."""
