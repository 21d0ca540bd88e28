"""Threads that are inside session.run when the process ends: they come out of it before Python goes.

What a daemon thread's session.run was waiting for fails when the executor ends. TensorFlow then makes the text of the
error, in Python and, from 2.x on, in C++ that calls Python. A thread that asks for the interpreter when that is going
is ended where it stands; inside such C++ that takes down the whole process, after a program that went well. On a busy
machine such a text takes seconds: it says where each op was made, which nobody reads then. So it is left out.
"""
import sys
import threading
import time

from sok1x.graph_ops.bridge import callers
from sok1x.graph_ops.bridge.tensorflow_versions import client_session

# They come within milliseconds. Threads may also wait for something that never comes: a queue of TensorFlow's.
_SECONDS = 5.0
_PAUSE_SECONDS = 0.002
# Then they let go of what they had there, of which some is C++'s.
_AFTERWARDS_SECONDS = 0.05


def shorten_errors():
    """From now on errors of session.run have no more words than those of the op that has failed."""
    interpolation = getattr(client_session, "error_interpolation", None)
    if hasattr(interpolation, "interpolate_graph"):  # TensorFlow 2's
        interpolation.interpolate_graph = lambda message, graph: message


def wait():
    """Waits for other threads to come out of session.run, for some seconds at most."""
    end, waited = time.monotonic() + _SECONDS, False
    while _anyone() and time.monotonic() < end:
        waited = True
        time.sleep(_PAUSE_SECONDS)
    if waited:
        time.sleep(_AFTERWARDS_SECONDS)


def _anyone():
    session, this = client_session.BaseSession, threading.get_ident()
    codes = [getattr(method, "__code__", None) for method in (session._do_call, session.run)]
    return any(frame.f_code in codes for thread, innermost in sys._current_frames().items() if thread != this
               for frame in callers.outwards(innermost))
