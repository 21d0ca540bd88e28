"""The embedding layers, under SOK's dotted names."""
