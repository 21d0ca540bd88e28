"""The ranks of a job: who they are, how they exchange data, in which order, and how they end. No TensorFlow here.

For the executor thread (graph_ops), which makes all calls below but `coordinator.fail_job` and `conclude`:

    world = start(arguments)                 # the Init op; LaunchError leaves everything as it was
    coordinator = world.coordinator
    loop:
        wait for a request, at most coordinator.wait_microseconds() (None: until one comes), and take what else is there
        requests of ops that communicate: if coordinator.job_error: fail them with that, else prepare them, and
            tickets = coordinator.announce_all([Ready(...), ...])  # a failure of `prepare` goes in Ready.error; in the
                                                               # order of the plan, say: cheapest where ranks agree
        for decision in coordinator.poll():                    # in this order; those of one batch can run together
            decision.error   -> fail the request that got decision.ticket
            otherwise        -> run it with decision.headers, also when job_error is set meanwhile; where that fails on
                                all ranks alike: coordinator.undone(decision.number), then fail the request
        a session of the program is gone: coordinator.forget(its number in Op.context)
    an exception of our own outside any request: coordinator.fail_job(message)   # any thread

For tables on GPUs, all ranks at the same point, with the GPU's context current:

    connect_gpu(world, gpu)                  # sets world.gpu_communicator: NCCL, or MPI through pinned memory

Its exchanges are enqueued on gpu.stream and not waited for. When the job fails while one is under way, it is aborted
within some seconds, so that waits for the GPU end: check `world.gpu_communicator.failure` after such a wait.

At exit (one atexit handler of graph_ops, registered when Init runs; main thread): tell the executor to stop, then
conclude(world, thread), which waits for its thread. The executor, told to stop:

    coordinator.leave()
    until coordinator.left: carry out coordinator.poll(), sleep 1 ms
    fail what is left in its queue with CANCELLED
    finish(world)

The order, file by file: coordinator (a rank's part) announces by way of announcing and announcements, and talks with
rank 0 over channel, in messages and bundles; there leader hears all ranks, pairs what belongs together in pool (bundles
of sessions that are known) or pairing (all else), and decides in batches.
"""
from .announcements import Decision, Ready
from .coordinator import Coordinator
from .errors import LaunchError
from .failure import conclude, finish
from .gpu_connection import connect_gpu
from .messages import Instance, Op
from .world import World, current, start

__all__ = ["Coordinator", "Decision", "Instance", "LaunchError", "Op", "Ready", "World", "conclude", "connect_gpu",
           "current", "finish", "start"]
