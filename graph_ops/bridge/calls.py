"""What the kernels of our op (a node in one session each) run: made from the node's config when it first runs."""
from sok1x import launch
from sok1x.graph_ops.bridge import configs, plan, registry

_KERNELS_REMEMBERED = 10000


class Call:
    """What a kernel runs: its operation, with its config and where the op stands.

    plan: the number of its graph's plan, None where another process has built the graph.
    """

    __slots__ = ("operation", "config", "place", "plan")

    def __init__(self, function, config):
        self.operation = registry.get(function)
        self.config, self.place = configs.decode(self.operation.Config, config)
        self.plan = self.place.plan if self.place.process == plan.PROCESS else None

    def announced(self, taken, rivals):
        """The Ready of a `together.Taken` of this call."""
        request = taken.request
        index, digest = self.place.op
        of_graph = taken.context.plans[self.plan]
        # In a loop of its own an op has one frame; the name of a frame in other loops tells which of theirs.
        loops = self.place.loops
        instance = launch.Instance(self.operation.tie(request), request.frame if loops > 1 else 0,
                                   request.iteration if loops else 0, request.signature)
        return launch.Ready(
            op=launch.Op(taken.context.number, index, digest), name=request.name, header=taken.header,
            error=taken.error,
            step=request.step, instance=instance, plan=of_graph,
            graphs=plan.graphs() if of_graph is None or of_graph.counted else 0, rivals=rivals)


class Calls:
    """The calls of the kernels that have run, by the bridge's number of a kernel."""

    def __init__(self):
        self._known = {}

    def of(self, request):
        """The Call of a request."""
        call = self._known.get(request.kernel)
        if call is None:
            if len(self._known) >= _KERNELS_REMEMBERED:  # kernels of sessions long closed
                self._known.clear()
            call = Call(request.function.decode(), request.config.decode())
            self._known[request.kernel] = call
        return call
