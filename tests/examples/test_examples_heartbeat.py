"""The benchmark of the watch over other hosts: it measures what it says, and the watch sleeps."""
import json
import os
import subprocess
import sys

from ranks import environment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_it_runs(tmp_path):
    out = tmp_path / "heartbeat.json"
    subprocess.run([sys.executable, os.path.join(ROOT, "benchmarks", "heartbeat.py"), "--ranks", "4", "--silence", "1",
                    "--seconds", "3", "--output", str(out)], check=True, stdout=subprocess.PIPE, env=environment())
    report = json.loads(out.read_text())
    assert report["figures"]["ends of connections"] == 6 and report["commit"]
    assert report["figures"]["kernel's questions a second"] > 0
    assert report["figures"]["CPU ms"] < 1000, "of 3 s: no loop that only looks"


def test_the_page_says_what_was_measured():
    with open(os.path.join(ROOT, "benchmarks", "results", "heartbeat.json")) as file:
        figures = json.load(file)["figures"]
    with open(os.path.join(ROOT, "docs", "several_machines.md"), encoding="utf-8") as file:
        page = " ".join(file.read().split())
    assert "{} ranks in one process, with {} ends of connections, used {:.1f} ms of CPU in {:.0f} s".format(
        figures["ranks"], figures["ends of connections"], figures["CPU ms"], figures["seconds"]) in page
    assert "asked {:.0f} times a second".format(figures["kernel's questions a second"]) in page
