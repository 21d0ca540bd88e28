"""What the kernels of our op (a node in one session each) run: made from the node's config when it first runs."""
import functools

from sok1x import launch
from sok1x.graph_ops.bridge import configs, devices, kept_in_host_memory, plan, registry

_KERNELS_REMEMBERED = 10000

# As the types themselves, with all fields, but without a function of Python's in between: there are many of them.
_instance, _ready = [functools.partial(tuple.__new__, kind) for kind in (launch.Instance, launch.Ready)]


class Call:
    """What a kernel runs: its operation, with its config and where the op stands.

    Attributes:
      plan: the number of its graph's plan, None where another process has built the graph.
      context: the Context of its session. gpu: the `Gpu` that it runs on, None for the CPU.
      alike: what calls have in common whose requests may run together as long as they have not been decided, as their
        operation's group form says (groups/form.py); None where only the request can tell.
      waits: as `Operation.waits_of` says.
      learned: whether C++ has learned what the kernel is: `learn`.
      op: how the coordinator knows it, None where it does not communicate. name: the op's, for messages.
    """

    __slots__ = ("operation", "config", "place", "plan", "context", "gpu", "alike", "op", "name", "waits",
                 "learned", "_lane", "_of_graph", "_tie")

    def __init__(self, request, contexts):
        self.operation = registry.get(request.function)
        self.config, self.place = configs.decode(self.operation.Config, request.config)
        self.plan = self.place.plan if self.place.process == plan.PROCESS else None
        self.context = contexts.of(request.session, self.plan)
        self.gpu = devices.find(request)
        if self.gpu is None:
            kept_in_host_memory.look(request, self.config, self.plan)
        self.op = None if self.place.op is None else launch.Op(self.context.number, *self.place.op)
        self.name = _label(self.place.label, self.config) or request.name
        self._of_graph = self.context.plans[self.plan]
        if isinstance(self._of_graph, plan.Unordered):
            self._of_graph = None  # there is no order to show
        # None where it is 0 for all.
        self._tie = None if type(self.operation).tie is registry.Operation.tie else self.operation.tie
        self.waits = self.operation.waits_of(self.config)
        self.alike = self._lane = None
        self.learned = False
        if self.operation.group is not None:
            key = self.operation.group.fixed_key(self.config)
            self.alike = None if key is None else (self.operation, self.gpu, key)

    @property
    def label(self):
        """The op's name where it is not its node's, because it runs at once; else ""."""
        return self.place.label and self.name

    def learn(self, request, world):
        """Has C++ learn what the kernel of a request is."""
        self.learned, form = True, self.operation.group
        if form is not None:
            self._lane = form.lane(request, self, world)  # which C++ reads
            alike = 1 + registry.number(self.operation) if form.several or self._lane else 0
            request.library.lane_learn(
                self._lane and self._lane.address, alike, request.kernel,
                request.step, request.session, request.signature, request.frame, request.iteration)

    @property
    def tied(self):
        """Whether its runs continue earlier exchanges."""
        return self._tie is not None

    def met(self, exchange):
        """Its op has run together with other ranks, as the exchange of this number."""
        self.context.meet(exchange)
        if self._of_graph is not None:
            self._of_graph.met = True
        if self._lane is not None:
            self._lane.met()

    def went(self, exchange):
        """A training run's bags go by the exchange of this number."""
        if self._lane is not None:
            self._lane.went(exchange)

    def announced(self, taken, rivals):
        """The Ready of a `together.Taken` of this call."""
        request, of_graph = taken.request, self._of_graph
        # In a loop of its own an op has one frame; the name of a frame in other loops tells which of theirs.
        loops = self.place.loops
        instance = _instance((0 if self._tie is None else self._tie(request), request.frame if loops > 1 else 0,
                              request.iteration if loops else 0, request.signature))
        graphs = plan.graphs() if of_graph is None or of_graph.counted else 0
        alike = (0, 0) if of_graph is None or self.context.met else of_graph.alike(*self.place.op)
        return _ready((self.op, self.name, taken.header, taken.error, request.step, instance, of_graph, graphs, rivals,
                       alike))


def _label(label, config):
    """The name of an op that runs at once, with its table's; "" of an op in a graph, whose node has a name of its own.

    Such ops of many tables, all gradients for one, have one name.
    """
    table = getattr(config, "table", None)
    return label if not label or table is None else "{} (table {})".format(label, table.name)


class Calls:
    """The calls of the kernels that have run, by the bridge's number of a kernel."""

    def __init__(self, contexts, library):
        self._contexts, self._library = contexts, library
        self._known = {}
        self._former = {}  # forgotten, as there were too many; what C++ has decided may still read what they made

    def of(self, request):
        """The Call of a request.

        Raises:
          CallError: FAILED_PRECONDITION where it is on a GPU that cannot be used.
        """
        call = self._known.get(request.kernel)
        if call is None:
            if len(self._known) >= _KERNELS_REMEMBERED:
                self._former = dict(self._known)
                self._forget(list(self._known))
            call = self._known[request.kernel] = Call(request, self._contexts)
        return call

    def end(self, session):
        """Forgets a session's kernels and its context. Returns that one's number, or None where it ran nothing."""
        context = self._contexts.end(session)
        if context is None:
            return None
        self._forget([kernel for kernel, call in self._known.items() if call.context is context])
        self._former = {kernel: call for kernel, call in self._former.items() if call.context is not context}
        return context.number

    def _forget(self, kernels):
        for kernel in kernels:
            self._library.lane_forget(kernel)
            del self._known[kernel]
