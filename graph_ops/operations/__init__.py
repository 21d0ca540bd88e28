"""What `Sok1xCall` can run, one family of ops a file with its gradient beside it."""
