"""In a process that was forked from one with an executor, what would run an op of ours is refused.

A forked child has its parent's memory and none of its threads: nobody would answer a request there. Nor are there
TensorFlow's own threads, for which a session that has run before, or a function, waits before it comes to an op of
ours. So in the child, and there alone, `session.run` and what calls functions look first whether they would run such an
op; the C++ op itself refuses whatever else comes to it. What has no op of ours in it goes on as TensorFlow has it.
"""
import functools
import os
import weakref

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import op_types
from sok1x.graph_ops.bridge.tensorflow_versions import client_session, eager_context

_WORDS = ("{}: got a process (id {}) that was forked from one in which sok1x was in use (id {}), and has none of its "
          "threads, such as the executor that runs sok1x's ops; start processes with multiprocessing's 'spawn', or "
          "fork before anything of sok1x is built, and before sok1x.Init and sok1x.init")

_parent = None  # the process that has the executor, in a forked child
_clean = weakref.WeakKeyDictionary()  # graph -> fetches that need no op of ours


def watch(library):
    """Has forked children know that they are such. Called once, by the process that starts the executor."""
    os.register_at_fork(after_in_child=functools.partial(_in_child, library, os.getpid()))


def refuse(what):
    """Raises in a forked child; else does nothing.

    Args:
      what: the function that was called, for the message.

    Raises:
      tf.errors.FailedPreconditionError: this process was forked from one in which sok1x was in use.
    """
    if _parent is not None:
        raise tf.errors.FailedPreconditionError(None, None, _words(what))


def _words(what):
    return _WORDS.format(what, os.getpid(), _parent)


def _in_child(library, parent):
    global _parent
    again, _parent = _parent is not None, parent
    library.forked(_words("sok1x").encode())
    if again:  # a child's child: the rest is as in its parent
        return
    session = client_session.BaseSession
    _before(session, "_call_tf_sessionrun", lambda self, options, feeds, fetches, targets, metadata: _refuse_ops(
        self.graph, [fetch.oper for fetch in fetches] + list(targets)))
    _before(session, "partial_run_setup", lambda self, *_, **__: _refuse_graph(self.graph))
    _before(session, "_call_tf_sessionprun", lambda self, *_: _refuse_graph(self.graph))
    session._make_callable_from_options = _making(session._make_callable_from_options)
    _before(session._Callable, "__call__", lambda self, *_, **__: _refuse_calling(self))
    if hasattr(eager_context.Context, "call_function"):
        _before(eager_context.Context, "call_function", lambda self, name, *_: _refuse_function(self, name))


def _before(owner, name, check):
    """Has a method call check, with the same arguments, first."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def checked(*args, **kwargs):
        check(*args, **kwargs)
        return method(*args, **kwargs)

    setattr(owner, name, checked)


def _refuse_ops(graph, handles):
    _refuse_names(graph, [client_session.tf_session.TF_OperationName(handle) for handle in handles])


def _refuse_names(graph, names):
    """Refuses to run ops, by their names, if one of ours comes before them, or in a function that they call."""
    names = frozenset(names)
    clean = _clean.setdefault(graph, set())
    if names in clean:
        return
    left = [graph.get_operation_by_name(name) for name in names]
    seen, functions = set(left), {}
    while left:
        op = left.pop()
        if op_types.is_ours(op) or (graph._functions and _calls_ours(
                op.node_def, functions, lambda name: _definition_in(graph, name))):
            refuse("session.run")
        before = [tensor.op for tensor in op.inputs] + list(op.control_inputs)
        left += [each for each in before if each not in seen]
        seen.update(before)
    clean.add(names)


def _refuse_graph(graph):
    if any(op_types.is_ours(op) for op in graph.get_operations()):
        refuse("session.run")


def _making(make):
    """BaseSession's method that makes a callable, which says first whether this may be."""
    @functools.wraps(make)
    def checked(session, options):
        _refuse_names(session.graph, [name.partition(":")[0] for name in list(options.fetch) + list(options.target)])
        made = make(session, options)
        made._made_after_fork = True
        return made
    return checked


def _refuse_calling(called):
    """What a callable runs is known of one that was made here; of others, only which graph it is in."""
    if not hasattr(called, "_made_after_fork"):
        _refuse_graph(called._session.graph)


def _refuse_function(context, name):
    name = name.decode() if isinstance(name, bytes) else name
    if _is_ours_in(name, _functions, context.get_function_def):
        refuse("tf.function '{}'".format(name))


_functions = {}  # name of an eager function -> whether it runs an op of ours; functions do not change


def _definition_in(graph, name):
    found = graph._get_function(name)
    return None if found is None else found.definition


def _is_ours_in(name, known, definition_of):
    """Whether a function, or what it calls, has an op of ours.

    Args:
      name: str. known: {name: bool}, what has been found already. definition_of: gives a FunctionDef by its name.
    """
    if name not in known:
        known[name] = False  # while it is looked at: it may call itself
        definition = definition_of(name)
        known[name] = definition is not None and any(
            node.op in op_types.TYPES or _calls_ours(node, known, definition_of) for node in definition.node_def)
    return known[name]


def _calls_ours(node, known, definition_of):
    for value in node.attr.values():
        for function in ([value.func] if value.HasField("func") else value.list.func):
            if _is_ours_in(function.name, known, definition_of):
                return True
    return False
