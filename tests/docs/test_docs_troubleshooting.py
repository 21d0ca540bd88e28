"""docs/troubleshooting.md has every error of the sources, but for the classes that it names.

Those are: ValueError, TypeError and their like that say `expected`, about one argument at the graph's construction;
what `sok1x.check` finds, whose text is the remedy; and the second halves of '… is damaged: …'.
"""
import os
import re
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools"))

import docs_pages  # noqa: E402
import error_messages  # noqa: E402

# Their ValueErrors are caught, and end up behind '… is damaged: '.
SECOND_HALVES = tuple("sok1x/checkpoint/files/" + name
                      for name in ("manifest.py", "shard_header.py", "strict_json.py"))
# What Python itself asks for: a name that a module has not, as hasattr does.
NAMES = ("AttributeError", "StopIteration")


@pytest.fixture(scope="module")
def messages():
    found = error_messages.messages()
    assert len(found) > 450
    return found


@pytest.fixture(scope="module")
def fragments():
    page = docs_pages.read("docs/troubleshooting.md")
    cells = re.findall(r"^\| (`.*?`)(?: \(a warning\))?[^`|]* \|", page, re.MULTILINE)
    return [fragment for cell in cells for fragment in re.findall(r"`([^`]+)`", cell)]


def needs_a_row(message):
    if message.says_itself or message.error == "Failure" or message.error in NAMES:
        return False
    return not (message.error == "ValueError" and message.path in SECOND_HALVES)


def test_every_message_is_on_the_page(messages, fragments):
    lacking = ["{}:{}: {}".format(one.path, one.line, one.text) for one in messages if needs_a_row(one)
               and not any(error_messages.fits(fragment, one.text) for fragment in fragments)]
    assert not lacking, "errors that docs/troubleshooting.md does not have:\n" + "\n".join(lacking)


def test_the_page_has_no_message_that_is_gone(messages, fragments):
    text = "\n".join(docs_pages.read(path) for path in error_messages.sources((".py", ".cc", ".h")))
    text = re.sub(r"\"\s*\n?\s*\"", "", text)  # literals that are written in several pieces
    gone = [fragment for fragment in fragments
            if not any(error_messages.fits(fragment, one.text) for one in messages)
            and not all(part.strip() in text for part in fragment.split(error_messages.GAP))]
    assert not gone


def test_fragments_say_enough(fragments):
    """A fragment of a few letters would fit everything."""
    assert not [one for one in fragments if len(re.sub(r"[^a-zA-Z]", "", one)) < 7]
    assert len(fragments) == len(set(fragments))


def test_a_new_message_would_be_seen(fragments):
    new = error_messages.Message("sok1x/new.py", 1, "CallError", "table '…' cannot swim")
    assert needs_a_row(new) and not any(error_messages.fits(one, new.text) for one in fragments)
    assert not needs_a_row(new._replace(error="ValueError", text="depth: got …, expected an integer"))
