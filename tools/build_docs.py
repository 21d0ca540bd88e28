"""Builds docs/ as a site into build/docs: `make docs`. Fails on a broken link or reference, and says which.

Pages are made from docs/ and the README in build/docs_source, where links to files of the repository lead to copies of
them, and the API reference has what docstrings say. mkdocs (requirements-docs.txt) then makes the site, strictly, in an
environment of its own, so that nothing of .venv changes.
"""
import filecmp
import os
import re
import shutil
import subprocess
import sys

import docs_pages
import docs_reference

ROOT = docs_pages.ROOT
SOURCE = os.path.join(ROOT, "build", "docs_source")
SITE = os.path.join(ROOT, "build", "docs")
ENVIRONMENT = os.path.join(ROOT, "build", "docs-env")
REQUIREMENTS = os.path.join(ROOT, "requirements-docs.txt")
PYTHON = os.path.join(ENVIRONMENT, "bin", "python")
REFERENCE = "<!-- reference -->"


def environment() -> None:
    """Makes the environment with mkdocs, unless it is there as the requirements say."""
    stamp = os.path.join(ENVIRONMENT, "requirements-docs.txt")
    if os.path.exists(stamp) and filecmp.cmp(stamp, REQUIREMENTS, shallow=False):
        return
    print("docs: installing mkdocs in build/docs-env ...", flush=True)
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    subprocess.check_call([sys.executable, "-m", "venv", ENVIRONMENT])
    subprocess.check_call([PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "-r",
                           REQUIREMENTS])
    shutil.copyfile(REQUIREMENTS, stamp)


def moved(name: str, text: str) -> str:
    """A page's text with its links as they are in the site; files that it links to are copied there."""
    def lead(match: "re.Match") -> str:
        label, target = match.groups()
        if re.match(r"(https?|mailto):|#", target):
            return match.group(0)
        path, _, mark = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(name), path))
        if path == docs_pages.README:
            path = "readme.md"
        elif path.startswith("docs" + os.sep):
            path = os.path.relpath(path, "docs")
        elif os.path.isdir(os.path.join(ROOT, path)):
            return label
        else:
            copy = os.path.join(SOURCE, "files", path)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copyfile(os.path.join(ROOT, path), copy + (".txt" if path.endswith((".md", "LICENSE")) else ""))
            path = os.path.join("files", path) + (".txt" if path.endswith((".md", "LICENSE")) else "")
        return "[{}]({}{})".format(label, path, "#" + mark if mark else "")

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else re.sub(r"\[([^\]]*)\]\(\s*([^)\s]+)\s*\)", lead, part)
                   for part in parts)


def main() -> int:
    """Checks links, writes the pages, and has mkdocs build them."""
    broken = docs_pages.all_broken()
    if broken:
        print("docs: broken links:\n  " + "\n  ".join(broken), file=sys.stderr)
        return 1
    environment()
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(docs_pages.DOCS, SOURCE)
    for name in docs_pages.names():
        text = moved(name, docs_pages.read(name))
        if REFERENCE in text:
            text = text.replace(REFERENCE, docs_reference.markdown())
        target = "readme.md" if name == docs_pages.README else os.path.relpath(name, "docs")
        with open(os.path.join(SOURCE, target), "w", encoding="utf-8") as file:
            file.write(text)
    code = subprocess.call([PYTHON, "-m", "mkdocs", "build", "--strict", "--quiet", "--clean", "-d", SITE, "-f",
                            os.path.join(ROOT, "mkdocs.yml")])
    if code == 0:
        print("docs: " + os.path.join(SITE, "index.html"))
    return code


if __name__ == "__main__":
    sys.exit(main())
