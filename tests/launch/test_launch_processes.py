"""Which processes are ranks: what a rank has started or forked is none, and who has ended and waits is seen off."""
import signal
import subprocess
import sys

import pytest
from at_once import job
from ranks import environment, run_ranks

ENDS = """
import os, signal, sys
from sok1x import ends
signal.signal(signal.SIGHUP, signal.SIG_IGN if {deaf} else signal.SIG_DFL)  # nohup has it ignored
ends.say(os.getpid())
print("ends", flush=True)
sys.stdin.read()
print("has ended", flush=True)
"""
WITH_CHILDREN = """
import multiprocessing, multiprocessing.pool  # whose processes are joined as this one ends, after it has said so
import os, subprocess, sys, time
import sok1x

def train():
    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
        time.sleep(10)
    sok1x.init()
    print("fine", flush=True)

if __name__ == "__main__":
    if sys.argv[1] == "spawns":
        multiprocessing.get_context("spawn").Process(target=train).start()
    else:
        if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
            subprocess.run([sys.executable, "-c", "import atexit, time; atexit.register(time.sleep, 8); import sok1x"])
        train()
"""


def trained_with_children(way, folder):
    program = folder / "program.py"
    program.write_text(WITH_CHILDREN)
    return run_ranks(2, str(program), way, timeout=240, fresh=True)


@pytest.mark.parametrize("way", ["spawns", "runs"])
@job(trained_with_children)
def test_what_a_rank_has_started_is_not_taken_for_it(way, ended):
    """A rank that ends while its child trains; a child that ends slowly while its rank is yet to train."""
    done = ended()
    assert done.out.count("fine") == 2, str(done)


SEES_OFF = """
import subprocess, sys
from sok1x.launch import siblings
ends = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert ends.stdout.readline() == b"ends\\n"
siblings.see_off()
print(ends.communicate()[0], ends.returncode)
"""


def seen_off(deaf, folder):
    """(a process that has seen off one of its launcher's, what one of another launcher wrote, its code)."""
    launcher = folder / "mpiexec"
    launcher.symlink_to("/bin/bash")
    launched = [str(launcher), "-c", '"$@"; exit 0', "x", sys.executable, "-c"]
    env, pipe = environment({"OMPI_COMM_WORLD_RANK": "3"}), subprocess.PIPE
    other = subprocess.Popen(launched + [ENDS.format(deaf=False)], env=env, stdin=pipe, stdout=pipe,
                             universal_newlines=True)
    assert other.stdout.readline() == "ends\n"
    ours = subprocess.run(launched + [SEES_OFF, ENDS.format(deaf=deaf)], env=env, stdout=pipe, stderr=pipe,
                          universal_newlines=True, timeout=240)
    out, _ = other.communicate("", timeout=240)
    return ours, out, other.returncode


@pytest.mark.parametrize("deaf", [False, True])
@job(seen_off)
def test_who_ends_and_waits_is_seen_off(deaf, ended):
    """With code 1; by a signal that nobody can miss, if need be; not where another launcher has started it."""
    ours, out, code = ended()
    assert ours.stderr == "sok1x: rank 3 would wait for the others in MPI_Finalize, and is ended now\n"
    assert ours.stdout == "b'' {}\n".format(-signal.SIGKILL if deaf else 1)
    assert out == "has ended\n" and code == 0


GIVES_UP = """
import os, sys
from sok1x.launch import failure, siblings
siblings.see_off = lambda: print("seen off", flush=True)
failure.give_up()
child = os.fork()
if child:
    print("the child's code", os.waitpid(child, 0)[1], flush=True)
sys.exit(0)
"""


def test_a_child_of_a_rank_that_has_given_up_ends_as_it_likes():
    done = subprocess.run([sys.executable, "-c", GIVES_UP], stdout=subprocess.PIPE, universal_newlines=True,
                          timeout=240)
    assert (done.returncode, done.stdout) == (1, "the child's code 0\nseen off\n")
