"""A table's shard to files and from files."""
