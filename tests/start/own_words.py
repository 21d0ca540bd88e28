"""Messages of errors as our library wrote them."""
import re


def own_words(message):
    """What TensorFlow got from us and, as of 2.x, wrote where the op comes from before it."""
    return re.sub(r"\AGraph execution error:\n.*?^Node: '[^\n]*'\n", "", str(message), flags=re.DOTALL | re.MULTILINE)
