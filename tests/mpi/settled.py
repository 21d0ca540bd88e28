"""Waits until nothing in this process has anything to do but wait: then all that a step has ready is in the queue."""
import time

from sok1x.launch import stillness

SECONDS = 0.003  # between two looks


def settle(most=20.0):
    """Returns when no other thread of the process has run, or wanted to, for a moment; after `most` seconds at last.

    A thread that others keep from running is ready to run, so a busy machine makes this longer, and not wrong.
    """
    end = time.perf_counter() + most
    while time.perf_counter() < end:
        used = time.process_time()
        time.sleep(SECONDS)
        # Threads that take turns in Python may wait whenever this one looks.
        if time.process_time() - used < SECONDS / 10 and all(
                state not in "RD" for _, state, _ in stillness._native_threads()):
            return
