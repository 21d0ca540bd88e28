"""The pages of docs/ and the README: links lead somewhere, commands are there, Python runs, nothing is said twice."""
import collections
import inspect
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))

import docs_pages  # noqa: E402
import docs_reference  # noqa: E402
import drawings  # noqa: E402

PAGES = {name: docs_pages.read(name) for name in docs_pages.names()}
BLOCKS = [(name, block) for name, text in PAGES.items() for block in docs_pages.blocks(text)]


def shell():
    """(page, line, what is typed) for all blocks of shell."""
    return [(name, block.line, block.code) for name, block in BLOCKS if block.language == "bash"]


def test_links_lead_to_files_and_headings():
    assert docs_pages.all_broken() == []
    assert sum(len(list(docs_pages.links(text))) for text in PAGES.values()) > 100


def test_a_broken_link_is_seen():
    pages = {"docs/a.md": "# A\n[x](b.md#there) [y](b.md#gone) [z](c.md) `[no](link)`\n```text\n[no](link)\n```\n",
             "docs/b.md": "# There\n"}
    real, docs_pages.os.path.exists = os.path.exists, lambda path: not path.endswith("c.md")
    try:
        wrong = docs_pages.broken("docs/a.md", pages)
    finally:
        docs_pages.os.path.exists = real
    assert wrong == ["docs/a.md:2: docs/b.md has no heading for #gone", "docs/a.md:2: there is no docs/c.md"]


def test_every_page_is_in_the_site_once():
    with open(os.path.join(ROOT, "mkdocs.yml"), encoding="utf-8") as file:
        named = re.findall(r": (\w+\.md)$", file.read(), re.MULTILINE)
    assert sorted(named) == sorted(["readme.md"] + [os.path.basename(name) for name in PAGES if "/" in name])
    linked = {link.target.partition("#")[0] for link in docs_pages.links(PAGES["docs/index.md"])}
    assert linked == {os.path.basename(name) for name in PAGES if "/" in name} - {"index.md"} | {"../README.md"}


def test_blocks_say_their_language_and_why_they_are_not_run():
    """Every ``` belongs to a block that the parser has found; a block that is not run says a reason."""
    for name, text in PAGES.items():
        assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(list(docs_pages.blocks(text))), name
    assert not [(name, block.line) for name, block in BLOCKS if block.language not in docs_pages.LANGUAGES]
    assert not [(name, block.line) for name, block in BLOCKS
                if block.not_run and (block.language != "python" or len(block.not_run) < 20)]
    for text in PAGES.values():  # a comment that belongs to no block would be passed over
        assert len(re.findall(r"<!-- (?:not run|before):", text)) == sum(
            bool(block.not_run or block.before) for block in docs_pages.blocks(text))


def test_shell_parses_and_what_it_names_is_there():
    code = "\n".join("f{}() {{\n{}\n}}".format(number, code) for number, (_, _, code) in enumerate(shell()))
    done = subprocess.run(["bash", "-n"], input=code, stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(ROOT, "Makefile")) as file:
        targets = set(re.findall(r"^([a-z0-9-]+):", file.read(), re.MULTILINE))
    for name, line, code in shell():
        for target in re.findall(r"\bmake ([a-z][a-z0-9-]*)", code):
            assert target in targets, (name, line, target)
        for module in re.findall(r"python -m (sok1x[\w.]*)", code):
            path = os.path.join(ROOT, *module.split("."))
            assert os.path.exists(path + ".py") or os.path.exists(os.path.join(path, "__main__.py")), (name, module)
        for script in re.findall(r"\b((?:legacy_examples|tools|benchmarks)/\w+\.(?:py|sh))\b", code):
            assert os.path.exists(os.path.join(ROOT, script)), (name, line, script)


def test_files_that_are_named_are_there():
    for name, text in PAGES.items():
        for path in re.findall(r"`((?:legacy_examples|benchmarks|tests|docs|tools)/[\w/.]+\.\w+)\b", text):
            assert os.path.exists(os.path.join(ROOT, path)), (name, path)


def test_no_sentence_is_in_two_pages():
    """Long sentences and rows of tables are said in one place; others link to it."""
    where = collections.defaultdict(set)
    for name, text in PAGES.items():
        text = re.sub(r"\s+", " ", re.sub(r"^[|-]+$", "", docs_pages.prose(text), flags=re.MULTILINE))
        for sentence in re.split(r"(?<=[.:;|]) ", text):
            if len(sentence) > 80:
                where[sentence.strip("- ")].add(name)
    assert not {sentence: names for sentence, names in where.items() if len(names) > 1}


def test_drawings_are_what_their_texts_say():
    made = drawings.drawings()
    there = [name for name in os.listdir(drawings.FOLDER) if name.endswith(".svg")]
    assert sorted(os.path.basename(path) for path in made) == sorted(there)
    for path, svg in made.items():
        with open(path, encoding="utf-8") as file:
            assert file.read() == svg, "{}: run python tools/drawings.py".format(path)
    with pytest.raises(ValueError, match="expected one of"):
        drawings.draw("actors: a | b\nc: nobody")


def test_the_performance_guide_has_every_option():
    """Of tables and layers; those that every Keras layer or variable has, and what a model says by them, left out."""
    from sok1x import All2AllDenseEmbedding, DistributedEmbedding
    from sok1x.core.options.cache_options import CacheOptions
    from sok1x.core.options.forgetting_options import ForgettingOptions
    options = set(CacheOptions._fields) | set(ForgettingOptions._fields)
    for layer in (DistributedEmbedding, All2AllDenseEmbedding):
        options |= set(inspect.signature(layer.__init__).parameters) - {"self", "kwargs"}
    table = re.search(r"^## Options of the API\n(.*?)^## ", PAGES["docs/performance.md"], re.M | re.S).group(1)
    cells = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    said = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert options - said == {"combiner", "max_feature_num"}


def test_the_reference_has_every_public_name():
    markdown = docs_reference.markdown()
    names = docs_reference.public_names.public()
    headings = [heading.replace("\\", "") for heading in re.findall(r"^###+ (.*)$", markdown, re.MULTILINE)]
    assert sorted(headings) == sorted(names)


def test_the_python_of_all_pages_runs():
    pages = [name for name in PAGES if name != "README.md"]  # whose example test_setup_readme runs on two ranks
    done = subprocess.run([sys.executable, "-W", "ignore", os.path.join(ROOT, "tests", "docs", "run_pages.py")] + pages,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=600)
    assert done.returncode == 0, done.stdout
    ran = set(re.findall(r"^ran (\S+)$", done.stdout, re.MULTILINE))
    assert ran == {"{}:{}".format(name, block.line) for name, block in BLOCKS
                   if name in pages and block.language == "python" and not block.not_run}
