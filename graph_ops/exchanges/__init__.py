"""How keys, rows and gradients travel between ranks, one way a file."""
