"""docs/scaling.md has the tables that its script makes of the committed figures."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = "import scaling_model; print(scaling_model.page(open(scaling_model.PAGE).read()), end='')"


def test_the_tables_are_of_the_committed_figures():
    made = subprocess.run([sys.executable, "-c", SCRIPT], cwd=os.path.join(ROOT, "benchmarks"), stdout=subprocess.PIPE,
                          universal_newlines=True, check=True).stdout
    with open(os.path.join(ROOT, "docs", "scaling.md")) as file:
        assert made == file.read(), "run python benchmarks/scaling_model.py --write"
