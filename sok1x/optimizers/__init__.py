"""What optimizers need to know about embedding variables, under SOK's dotted names."""
