"""Lines on stderr, each written in one piece because all ranks write to one terminal."""
import os


def print_line(text):
    """Writes `text` and a newline to stderr, past Python's buffers and their locks: any thread, at any time."""
    os.write(2, (text + "\n").encode("utf-8", "replace"))
