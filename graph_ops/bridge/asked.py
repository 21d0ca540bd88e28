"""What other threads have the executor's thread do, between two requests."""
import collections
import concurrent.futures
import threading

from sok1x.graph_ops.bridge.errors import CallError


class Asked:
    """Functions that are to be called there.

    Args:
      wake: function that has the executor's thread look here.
    """

    def __init__(self, wake):
        self._wake = wake
        self._lock = threading.Lock()
        self._functions = collections.deque()  # with the Future of what each gives
        self._closed = None  # (code, reason) once nobody calls them any more

    def ask(self, function):
        """Has function() called, and waits for it. Returns what it gives, or raises what it raises.

        Raises:
          CallError: the executor has ended.
        """
        future = concurrent.futures.Future()
        with self._lock:
            if self._closed is not None:
                raise CallError(*self._closed)
            self._functions.append((function, future))
        self._wake()
        return future.result()

    def answer(self):
        """Calls what has been asked for; the executor's thread does so."""
        while self._functions:
            function, future = self._functions.popleft()
            try:
                future.set_result(function())
            except BaseException as error:  # it is who asks that is to hear of it
                future.set_exception(error)

    def close(self, code, reason):
        """Nothing is called any more: who asks, or waits, gets an error with a status code and words."""
        with self._lock:
            self._closed = code, reason
            functions, self._functions = self._functions, collections.deque()
        for _, future in functions:
            future.set_exception(CallError(code, reason))
