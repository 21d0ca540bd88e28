"""Messages of errors as our library wrote them."""
import re

# Twice where op and fetch are on two devices: then the error itself is there twice, too.
_PLACES = r"\AGraph execution error:\n.*?^Node: '[^\n]*'\n(?:Detected at node .*?^Node: '[^\n]*'\n)*"


def own_words(message):
    """What TensorFlow got from us and, as of 2.x, wrote where the op comes from before it."""
    return re.sub(_PLACES, "", str(message), flags=re.DOTALL | re.MULTILINE)
