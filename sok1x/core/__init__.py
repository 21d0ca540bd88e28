"""Start, variables and scopes, under SOK's dotted names."""
