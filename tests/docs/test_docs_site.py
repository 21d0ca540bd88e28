"""`make docs` builds the site: every page, the API reference from docstrings, drawings; it fails on a broken link."""
import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))

import docs_pages  # noqa: E402


@pytest.mark.slow
def test_the_site_is_built_and_a_broken_link_fails(tmp_path):
    """Slow: it installs mkdocs from a registry, where build/docs-env is not there yet."""
    for name in ("docs", "tools", "tests/setup", "benchmarks", "legacy_examples", "README.md", "LICENSE",
                 "mkdocs.yml", "requirements-docs.txt"):
        source = os.path.join(ROOT, name)
        (shutil.copytree if os.path.isdir(source) else shutil.copyfile)(source, str(tmp_path / name))
    (tmp_path / "build").mkdir()
    if os.path.exists(os.path.join(ROOT, "build", "docs-env", "requirements-docs.txt")):
        os.symlink(os.path.join(ROOT, "build", "docs-env"), str(tmp_path / "build" / "docs-env"))
    command = [sys.executable, "-W", "ignore", str(tmp_path / "tools" / "build_docs.py")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                          env=dict(os.environ, PYTHONPATH=ROOT), timeout=600)
    assert done.returncode == 0, done.stdout
    site = tmp_path / "build" / "docs"
    for name in docs_pages.names():
        page = "readme.html" if name == "README.md" else os.path.basename(name)[:-3] + ".html"
        assert (site / page).stat().st_size > 2000, page
    reference = (site / "reference.html").read_text(encoding="utf-8")
    assert "sok1x.All2AllDenseEmbedding.call" in reference and "tf.errors.ResourceExhaustedError" in reference
    assert (site / "drawings" / "key.svg").exists()
    with open(str(tmp_path / "docs" / "keras.md"), "a", encoding="utf-8") as page:
        page.write("[nowhere](nowhere.md)\n")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                          env=dict(os.environ, PYTHONPATH=ROOT), timeout=600)
    assert done.returncode != 0 and "there is no docs/nowhere.md" in done.stdout
