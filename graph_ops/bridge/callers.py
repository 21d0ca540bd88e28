"""Who calls: the stack's frames, and whose methods they are.

TensorFlow and Keras call back without saying on whose behalf: of which hook, of which session, in which model function.
No argument tells it, and their frames do.
"""
import sys


def frames():
    """The frames of who calls, from the caller of the function that asks outwards.

    Yields:
      Frames, as sys._getframe gives them.
    """
    return outwards(sys._getframe(2))


def selves():
    """The objects whose methods call, from the caller of the function that asks outwards.

    Yields:
      What is called `self` in each frame that has such.
    """
    return (frame.f_locals["self"] for frame in outwards(sys._getframe(2)) if "self" in frame.f_locals)


def outwards(frame):
    """A frame, and those that call it.

    Args:
      frame: such a frame.

    Yields:
      Frames.
    """
    while frame is not None:
        yield frame
        frame = frame.f_back
