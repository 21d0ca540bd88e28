"""Structures and numbers that stand in Python and in C++: the same names in the same order, and the same values.

What their sizes alone would not show: two fields that have changed places.
"""
import ctypes
import importlib
import os
import re

import numpy as np
import pytest

import sok1x.graph_ops

GRAPH_OPS = os.path.dirname(os.path.realpath(sok1x.graph_ops.__file__))

# (C++'s file, its struct, Python's module, and there a NumPy dtype or a ctypes structure)
STRUCTURES = [
    ("groups/lookup_facts.h", "LookupFacts", "groups.lookup_run", "FACTS"),
    ("groups/lookup_facts.h", "NewRows", "groups.lookup_run", "NEW"),
    ("groups/update_run.h", "UpdateFacts", "groups.lane", "UPDATE_FACTS"),
    ("groups/update_run.h", "UpdateKernel", "groups.updates", "_Kernel"),
    ("groups/lane_op.h", "LaneOp", "groups.lane", "_OP"),
    ("groups/lane_ranks.h", "Standing", "bridge.lane_ranks", "_Standing"),
    ("groups/lane_ranks.h", "EventInfo", "bridge.lane_ranks", "_EventInfo"),
    ("groups/exchanges.h", "Ways", "bridge.lane_ranks", "_Ways"),
    ("groups/exchanges.h", "Direct", "launch.direct", "Direct"),
    ("bridge/bridge_queue.h", "Inbox", "launch.inbox", "Inbox"),
    ("bridge/bridge_request.h", "TensorInfo", "bridge.bridge", "TensorInfo"),
    ("bridge/bridge_request.h", "RequestInfo", "bridge.bridge", "RequestInfo"),
    ("bridge/bridge_timeline.h", "TimelineRecord", "bridge.timeline", "Record"),
    ("bridge/bridge_tier.h", "ColumnInfo", "bridge.tiers", "_Info"),
]

# (C++'s file, its enum, Python's module, and what numbers are called there, where that differs from C++'s words)
ENUMERATIONS = [
    ("groups/lane_op.h", "LaneKind", "groups.lane", "kLane", {}),
    ("groups/lane_op.h", "ClockNumber", "stores.clock_numbers", "k", {}),
    ("groups/lane_op.h", "Figure", "stores.figures", "kFigure", {}),
    ("groups/exchanges.h", "Among", "launch.by_hosts", "k", {}),
    ("groups/lane_ranks.h", "EventKind", "bridge.lane_ranks", "k", {"NONE": None}),
    ("bridge/bridge_timeline.h", "Stamp", "bridge.timeline", "kStamp", {"COUNT": None}),
    ("groups/lookup_run_forgetful.cc", "Counter", "stores.forgetting", "k", {}),
]

# (C++'s file, its constant, Python's module, its name)
CONSTANTS = [
    ("bridge/bridge_calls.h", "kGroupHolds", "bridge.bridge", "GROUP_HOLDS"),
    ("bridge/bridge_request.h", "kMaxRank", "bridge.bridge", "MAX_RANK"),
    ("bridge/bridge_named.cc", "kHostRows", "stores.host_tier", "_BESIDE"),
    ("bridge/bridge_pins.h", "kPause", "stores.step_times", "_PAUSE"),
    ("bridge/bridge_signature.cc", "kGradientsBit", "launch.messages", "_GRADIENTS_BIT"),
    ("groups/kept_sums.h", "kCopied", "stores.kept_sums", "_COPIED"),
    ("groups/lookup_run.h", "kTooManyDimensions", "groups.lookup_run", "TOO_MANY_DIMENSIONS"),
    ("groups/lookup_run_forgetful.cc", "kUnknownStep", "stores.forgetting", "UNKNOWN_STEP"),
    ("groups/meeting.h", "kFirst", "launch.lane", "FIRST"),
    ("groups/relay.h", "kUp", "launch.envelopes", "UP"),
    ("groups/relay.h", "kToOne", "launch.envelopes", "TO_ONE"),
    ("groups/relay.h", "kParted", "launch.envelopes", "PARTED"),
    ("groups/relay.h", "kAlarm", "launch.envelopes", "ALARM"),
]


def read(file):
    with open(os.path.join(GRAPH_OPS, file)) as source:
        return re.sub(r"//[^\n]*|/\*.*?\*/", "", source.read(), flags=re.DOTALL)


def in_python(module, name):
    return getattr(importlib.import_module(
        "sok1x." + module if module.startswith("launch") else "sok1x.graph_ops." + module), name)


def body_of(text, kind, name):
    """What stands between the braces of the one struct, or enum, of this name."""
    found = [match.end() for match in re.finditer(r"\b{} {}\s*(?::\s*\w+\s*)?{{".format(kind, name), text)]
    assert len(found) == 1, (kind, name, len(found))
    depth, end = 1, found[0]
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[found[0]:end - 1]


def fields(text, name):
    """The names of a struct's data members, in order: functions and inner structs have none."""
    body = body_of(text, "struct", name)
    while re.search(r"{[^{}]*}", body):  # functions' bodies
        body = re.sub(r"[^;{}]*{[^{}]*}", ";", body)
    found = []
    for statement in body.split(";"):
        pointed = re.search(r"\(\*(\w+)\)\s*\(", statement)
        if pointed:
            found.append(pointed.group(1))
        elif "(" not in statement and statement.strip():
            pieces = re.sub(r"<[^<>]*>", "", statement).split(",")
            found += [re.search(r"(\w+)\s*(?:\[[^\]]*\])*\s*(?:=.*)?$", piece.strip(), re.DOTALL).group(1)
                      for piece in pieces]
    return found


def numbers(text, name):
    """{name: number} of an enum."""
    found, number = {}, 0
    for item in body_of(text, "enum", name).split(","):
        if item.strip():
            word, _, value = (part.strip() for part in item.partition("="))
            number = int(value, 0) if value else number
            found[word] = number
            number += 1
    return found


def constant(text, name):
    found = re.findall(r"\bconst(?:expr)?\s[^;{{}}]*?\b{}(?:\[\])?\s*=\s*([^;,]+)[;,]".format(name), text)
    assert len(found) == 1, (name, found)
    plain = re.sub(r"\b(?:u?int\d+_t|i64)\s*{([^{}]*)}", r"\1", found[0])
    plain = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", plain)
    return eval(plain, {"__builtins__": {}})


@pytest.mark.parametrize("file, struct, module, name", STRUCTURES)
def test_structures_have_the_same_fields_in_the_same_order(file, struct, module, name):
    ours = in_python(module, name)
    names = list(ours.names) if isinstance(ours, np.dtype) else [field[0] for field in ours._fields_]
    assert names == fields(read(file), struct)


@pytest.mark.parametrize("file, enum, module, prefix, words", ENUMERATIONS)
def test_enumerations_are_numbered_alike(file, enum, module, prefix, words):
    for word, number in numbers(read(file), enum).items():
        assert word.startswith(prefix)
        plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word[len(prefix):]).upper()
        plain = words.get(plain, plain)
        if plain is not None:
            assert in_python(module, plain) == number, word


@pytest.mark.parametrize("file, c_name, module, name", CONSTANTS)
def test_constants_are_the_same(file, c_name, module, name):
    assert in_python(module, name) == constant(read(file), c_name)


def test_exchanges_are_numbered_alike():
    from sok1x.graph_ops.exchanges import choice, sizes
    from sok1x.graph_ops.groups import lookup_run
    text = read("groups/lookup_facts.h")
    in_c = {name: constant(text, "k" + word) for name, word in (
        ("all2all", "All2All"), ("reduce_scatter", "ReduceScatter"), ("auto", "Chooses"), ("settled", "Settled"))}
    assert lookup_run._EXCHANGES == in_c
    assert sizes.NO_CHOICE == constant(read("groups/choice.h"), "kNoChoice")
    assert (choice.ALL2ALL.number, choice.REDUCE_SCATTER.number) == (in_c["all2all"], in_c["reduce_scatter"])


def test_the_container_of_eager_variables_is_the_same():
    said = re.findall(r'"(sok1x:\w+)"', read("bridge/bridge_named.h"))
    assert said == [in_python("bridge.growing", "EAGER")]


def test_what_an_optimizers_slot_is_lies_as_in_c():
    """known_slots.py packs its fields by hand."""
    from sok1x.graph_ops.stores import known_slots
    slot = known_slots.Slot("the name", "a container", 0.5)
    told = known_slots._Told()
    told.tell([slot, slot])
    text = read("groups/lookup_facts.h")
    names = fields(text, "Slot")
    assert names == ["container", "name", "value"]
    at = told.pointer.value
    assert ctypes.c_int64.from_address(at).value == 2
    for number in range(2):
        first = at + 8 + 24 * number
        found = [ctypes.c_char_p.from_address(first).value, ctypes.c_char_p.from_address(first + 8).value,
                 ctypes.c_double.from_address(first + 16).value]
        assert dict(zip(names, found)) == {"container": b"a container", "name": b"the name", "value": 0.5}


def declared_in_step(text):
    """The names of what comes behind a comment that says that it is kept in step with something."""
    found, says = set(), False
    for block in re.findall(r"((?:[ \t]*//[^\n]*\n)+)([^\n]*)", text):
        says = re.search(r"[Kk]ept in\s+step with", re.sub(r"\n\s*//", "", block[0])) is not None
        if says:
            match = re.search(r"(?:struct|enum)\s+(\w+)|const\w*\s[^=]*?(\w+)(?:\[\])?\s*=|\b(k[A-Z]\w*)\s*=", block[1])
            assert match, block
            found.add(next(name for name in match.groups() if name))
    return found


def test_nothing_that_says_so_is_missing():
    """Whatever a comment says is kept in step stands in one of the tables, or has a test of its own."""
    tested = {(entry[0], entry[1]) for entry in STRUCTURES + ENUMERATIONS + CONSTANTS} | {
        ("bridge/bridge_named.h", "kEagerContainer"), ("groups/lookup_facts.h", "SlotsOf"),
        ("bridge/bridge_grow.cc", "kAbsent")}
    said = set()
    for folder, _, files in os.walk(GRAPH_OPS):
        for file in files:
            path = os.path.join(folder, file)
            if file.endswith((".h", ".cc")):
                with open(path) as source:
                    said |= {(os.path.relpath(path, GRAPH_OPS), name) for name in declared_in_step(source.read())}
    assert len(said) > 15 and sorted(said - tested) == []
    assert in_python("bridge.growing", "_WOULD_WAIT") == constant(read("bridge/bridge_grow.cc"), "kWouldWait")


def test_sources_are_understood():
    text = """
        struct Pair { int64_t a, b; };
        struct All {
          enum Kind { kOne, kTwo = 0x5, kThree };
          const char *name, *other;
          std::atomic<int64_t> count;  int (*call)(void* data, int n);
          char text[160], more[2];  Pair pairs[3];  mutable int64_t went = 0;
          std::map<int, int> both;
          int twice() const { return f(2) * 2; }
          int once() const;
        };
        constexpr int64_t kMany = int64_t{1} << 40; constexpr uint8_t kUp = 0xf3, kDown = 0xf4;"""
    assert fields(text, "Pair") == ["a", "b"]
    assert fields(text, "All") == ["name", "other", "count", "call", "text", "more", "pairs", "went", "both"]
    assert numbers(text, "Kind") == {"kOne": 0, "kTwo": 5, "kThree": 6}
    assert (constant(text, "kMany"), constant(text, "kUp"), constant(text, "kDown")) == (1 << 40, 0xf3, 0xf4)
