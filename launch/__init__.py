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

In messages a rank is `named(rank)`, which says on which host it is where there are several; at the start of a sentence
`starting(rank)`.

While `world.farewell.wanted`, in each turn of the loop: MPI is about to be finalised, though the process may go on

    world.farewell.go_on(a function that carries out coordinator.poll())

At exit (one atexit handler of graph_ops, registered when Init runs; main thread): tell the executor to stop, then
conclude(world, thread), which waits for its thread. The executor, told to stop:

    coordinator.leaving.begin()
    until coordinator.leaving.left: carry out coordinator.poll(), sleep 1 ms
    fail what is left in its queue with CANCELLED
    finish(world)

Who the ranks are:
    launcher             what started this process
    mpi_library          MPI loaded, begun and ended, shared with others in the process
    world                all ranks, as one process sees them
    hosts                which host a rank is on, in messages
    by_hosts             which ranks exchange with which, where exchanges go by hosts
    greeting             what they tell each other first
    agreement            whether all gave sok.Init equal arguments
    environment          the environment variables
    errors               the one exception of this folder
    lines                lines on stderr

How they exchange data:
    communicator         what every communicator can do
    local_communicator   of one rank
    mpi_communicator     on host memory, over MPI
    packed_side          what that does with counts that are too large for MPI
    rank_sums            floats of all ranks added up
    direct               a communicator as C++ has it
    gpu_connection       which of the next two a job's GPUs use
    gpu_communicator     what these have in common
    nccl_communicator    on device memory, over NCCL
    nccl_library         its calls
    staged_communicator  on device memory, by way of the host's

In which order. A rank's part:
    coordinator          announces what is ready, gives back what is decided
    announcements        announcements, answers, and those without one
    announcing           as few messages as possible
    bundles              ops announced together, ops decided together: one message each
    messages             all other messages
    channel              the way to rank 0 and back
    tree                 by way of which ranks that goes
    envelopes            what is around messages there
    mpi_transport        the messages over MPI
    inbox                whether there are any, for who sleeps meanwhile
    pauses               how long to sleep between two looks

Rank 0's part:
    leader               hears all ranks and decides
    pool                 bundles of sessions that are known, and what they have in common
    pairing              which announcements belong together, in all other cases
    pending              an op's run for which some ranks are ready
    plans                what each rank built
    batches              what is decided in one turn
    lane                 what C++ decides beside the leader

How they end:
    leaving              a rank leaves, while others go on
    ending               a job that is told to end: where all ranks stop
    job_failure          a failure of the job, from when a rank knows of it
    failure              a process ends cleanly, or all ranks do
    farewell             MPI finalised by a process that goes on
    left_alone           ops that wait for ranks that have left
    stall                ops that wait too long
    leader_watch         a rank 0 that gives no answer
    deadlock             a job in which every rank waits
    stillness            whether anything moves in this process
    exchange_watch       exchanges that do not end
    heartbeat            other hosts that are gone
    heartbeat_sockets    its connections
    orphans              an mpiexec that waits for a host that is gone
    siblings             ranks that have ended before they joined
"""
from .announcements import Decision, Ready
from .coordinator import Coordinator
from .errors import LaunchError
from .failure import conclude, finish
from .gpu_connection import connect_gpu
from .hosts import named, starting
from .messages import Instance, Op
from .world import World, current, start, stay_alone

__all__ = ["Coordinator", "Decision", "Instance", "LaunchError", "Op", "Ready", "World", "conclude", "connect_gpu",
           "current", "finish", "named", "start", "starting", "stay_alone"]
