"""Summaries of tables, and timelines: figures are NumPy's, and files what Chrome reads."""
import ctypes
import json
import os
import threading
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

import sok1x as sok
from sok1x import timeline
from sok1x.checkpoint.session import tables as graph_tables
from sok1x.graph_ops.bridge import executor
from sok1x.graph_ops.bridge import timeline as of_bridge

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_seeing.py")


def inside(event, other, slack=0):
    """Whether an event is within another, to the microsecond."""
    return other["ts"] - slack <= event["ts"] and event["ts"] + event["dur"] <= other["ts"] + other["dur"] + slack


def check_file(path, rank):
    """A rank's timeline: every op with its parts, which follow each other. Returns its events."""
    with open(path) as file:
        events = json.load(file)  # closed at the end
    assert timeline.read(path) == events
    drawn = [event for event in events if event["ph"] == "X"]
    assert {event["pid"] for event in events} == {rank} and len(drawn) > 50
    assert not [event for event in events if "no room" in event["name"]]
    rows = {}
    for event in drawn:
        rows.setdefault(event["tid"], []).append(event)
    kinds = set()
    for of_row in rows.values():
        for event in of_row:
            if "args" in event:
                op, at = event, event["ts"]
                continue
            assert event["ts"] == at and inside(event, op), (event, op)  # right after the one before it
            at += event["dur"]
            kinds.add((op["args"]["function"].split(".", 1)[1], event["name"]))
        ops = sorted([event for event in of_row if "args" in event], key=lambda event: event["ts"])
        assert all(one["ts"] + one["dur"] <= other["ts"] for one, other in zip(ops, ops[1:]))
    return drawn, kinds


@pytest.mark.parametrize("ranks", [2, pytest.param(1, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_of_all_ranks(tmp_path, seed, ranks):
    finished = run_ranks(ranks, PROGRAM, tmp_path, seed, env={"SOK1X_TIMELINE": str(tmp_path / "trace.json")})
    assert finished.out.count("done") == ranks, str(finished)
    files = sorted(path.name for path in tmp_path.glob("trace*.json"))
    assert files == (["trace.json"] if ranks == 1 else ["trace.{}.json".format(rank) for rank in range(ranks)])
    paths = [str(tmp_path / name) for name in files]
    for rank, path in enumerate(paths):
        drawn, kinds = check_file(path, rank)
        names = {event["name"] for event in drawn}
        assert any(name.startswith("late/lookup") for name in names), names
        waits = {name for _, name in kinds if name.startswith("waiting for rank")}
        if ranks == 1:
            assert not waits and ("dense_lookup.forward", "keys") in kinds
            continue
        assert {("dense_lookup.forward", name) for name in ("keys", "rows", "done")} <= kinds
        assert {("dense_lookup.backward", name) for name in ("rows", "done")} <= kinds
        assert "waiting for rank {}".format(rank) not in waits
        late = [event for event in drawn if event["name"] == "waiting for rank 1" and event["dur"] > 250000]
        assert late or rank != 0

    # With TensorFlow's own of the last step, in one file, by one clock; threads of a busy machine note times late.
    merged = str(tmp_path / "merged.json")
    assert timeline.main(["merge", merged] + paths + [str(tmp_path / "metadata")]) == 0
    with open(merged) as file:
        events = json.load(file)["traceEvents"]
    assert len({event["pid"] for event in events}) >= ranks + 2
    theirs = [event for event in events if event["ph"] == "X" and event["name"] == "Sok1xLookup"]
    ours = [event for event in events if event["ph"] == "X" and event["name"].startswith("late/lookup")]
    assert theirs and all(any(inside(event, other, slack=250000) for event in ours) for other in theirs[:0] + [max(
        theirs, key=lambda event: event["dur"])]), (theirs, ours)

    # Killed at any moment, a file has all events but the last.
    with open(paths[0], "rb") as file:
        data = file.read()
    cut = np.random.RandomState(seed).randint(data.index(b"\n", 5) + 1, len(data) - 2)
    (tmp_path / "cut.json").write_bytes(data[:cut])
    whole = [json.loads(line.rstrip(b",")) for line in data[:cut].split(b"\n")[1:-1]]
    assert timeline.read(str(tmp_path / "cut.json"))[:len(whole)] == whole and whole


@pytest.mark.parametrize("stamps, done, parts", [
    ((10, 20, 30, 40), 50, [("queued", 10, 10), ("keys", 20, 10), ("rows", 30, 10), ("done", 40, 10)]),
    ((10, 20, 0, 0), 50, [("queued", 10, 10), ("run", 20, 30)]),
    ((10, 20, 15, 0), 50, [("queued", 10, 10), ("run", 20, 30)]),  # C++ has left it, and Python run it
    ((10, 20, 15, 40), 50, [("queued", 10, 10), ("rows", 20, 20), ("done", 40, 10)]),
    ((10, 5, 4, 3), 2, [("queued", 10, 0), ("run", 10, 0)]),  # a clock that was set back
    ((0, 0, 0, 0), 50, [("run", 50, 0)]),
])
def test_parts_of_an_op_follow_each_other(stamps, done, parts):
    record = of_bridge.Record(stamps, done, 1, 2, -1, 0, b"lookup", b"forward")
    op, *drawn = of_bridge.events_of(record, 0, 0)
    assert [(event["name"], event["ts"], event["dur"]) for event in drawn] == parts
    assert op["ts"] == parts[0][1] and op["ts"] + op["dur"] == parts[-1][1] + parts[-1][2]


def test_costs_nothing_while_it_is_off():
    """Nothing is noted by a step, no thread waits, and no message is longer."""
    with tf.Graph().as_default(), tf.Session() as session:
        out = sok.All2AllDenseEmbedding(100, 4, 1, 1)(tf.constant([[[5]], [[6]]], tf.int64), training=True)
        step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(out))
        session.run(sok.Init(global_batch_size=2))
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(step)
    assert not of_bridge.on and executor._executor._library.timeline_noted() == 0
    assert "sok1x-timeline" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("counted", [True, False])
def test_a_summary_is_of_the_steps_since_it_was_run_last(counted):
    """Not of those that a restored global step says, nor of none; without a global step a run of it is a step."""
    with tf.Graph().as_default(), tf.Session() as session:
        layer, keys = sok.All2AllDenseEmbedding(1000, 4, 1, 1), tf.placeholder(tf.int64, [None, 1, 1])
        number = tf.train.get_or_create_global_step() if counted else tf.get_variable("number", initializer=0)
        step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(layer(keys)), number)
        made, found = sok.summary(layer), []
        session.run(sok.Init(global_batch_size=10))
        session.run(tf.global_variables_initializer())
        session.run(number.assign(1000))
        for new, summaries in ((10, 0), (10, 1), (20, 0), (30, 1), (7, 0), (7, 2), (9, 1)):
            first = session.run(layer.embedding_variable.rows_in_use())
            session.run(step, {keys: np.arange(first, first + new).reshape(-1, 1, 1)})
            for _ in range(summaries):
                values = {value.tag.rpartition("/")[2]: value.simple_value
                          for value in tf.Summary.FromString(session.run(made)).value}
                found.append((values["rows_in_use"], values.get("new_keys")))
    assert found == [(20, None), (70, 25 if counted else 50), (84, 7 if counted else 14), (84, None if counted else 0),
                     (93, 9)]


def test_figures_of_many_tables_look_through_the_graph_once(monkeypatch, tmp_path):
    """And again when there are other variables, as slots."""
    sok.init()
    looks = []
    monkeypatch.setattr(graph_tables, "tables_of", lambda graph, stock=graph_tables.tables_of: looks.append(
        graph) or stock(graph))
    with tf.Graph().as_default(), tf.Session() as session:
        tables = [sok.Variable(np.ones([4, 2], np.float32), name="table_{}".format(number)) for number in range(5)]
        before = [sok.table_stats(table).device_bytes for table in tables]
        assert len(looks) == 1
        loss = tf.add_n([tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant([1]))) for table in tables])
        tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
        del looks[:]
        sok.SummaryHook(1, str(tmp_path)).begin()  # which asks for its own tables too
        after = [sok.table_stats(table).device_bytes for table in tables]
        assert len(looks) == 2
        session.run(tf.global_variables_initializer())
        before, after = session.run([before, after])
    assert [one - other for one, other in zip(after, before)] == [4 * 2 * 4] * 5


def test_names_of_files_and_what_is_none(tmp_path):
    for given, rank, ranks, path in (("a/t.json", 0, 1, "a/t.json"), ("a/t.json", 1, 2, "a/t.1.json"),
                                     ("a.b/t", 0, 2, "a.b/t.0"), ("t-{rank}.json", 0, 1, "t-0.json")):
        assert of_bridge.path_of(given, rank, ranks) == path
    for data in (b"\xff\x00", b"null", b'"abc"', b"3", b"{}", b'{"traceEvents": 3}', b'[1, "x"]',
                 b'{"traceEvents": [{"ph": "X"}, 1]}'):
        (tmp_path / "none").write_bytes(data)
        with pytest.raises(ValueError, match="got neither trace events in JSON nor a tf.RunMetadata"):
            timeline.read(str(tmp_path / "none"))
    (tmp_path / "cut").write_bytes(b'[\n{"ph": "X"},\n3,\n{"ph"')
    assert timeline.read(str(tmp_path / "cut")) == [{"ph": "X"}]
    assert timeline.main(["merge", str(tmp_path / "all.json"), str(tmp_path / "missing")]) == 1


NOT_JOINED = types.SimpleNamespace(current=lambda: None)  # of_bridge alone sees it: this process may have an executor


class Library:
    """A bridge that has noted `count` runs, of which nothing is known."""

    def __init__(self, count):
        self.count = count

    def timeline_record_bytes(self):
        return ctypes.sizeof(of_bridge.Record)

    def timeline_begin(self, capacity):
        self.capacity = capacity

    def timeline_take(self, records, room, lost):
        count, self.count = self.count, 0
        return count


def test_a_process_that_has_run_nothing_leaves_a_ranks_file_alone(tmp_path, monkeypatch):
    """A rank's child has its environment, and so the name of its file."""
    monkeypatch.setattr(of_bridge, "launch", NOT_JOINED)
    path = str(tmp_path / "t-{rank}.json")
    with open(path.format(rank=0), "w") as file:
        file.write("a rank's")
    monkeypatch.setattr(of_bridge, "_launched", lambda: (0, 1))
    of_bridge.Writer(Library(0), path).end()
    with open(path.format(rank=0)) as file:
        assert file.read() == "a rank's"
    of_bridge.Writer(Library(1), path).end()
    assert [event["ph"] for event in timeline.read(path.format(rank=0))][0] == "M"


def test_a_thread_that_has_waited_for_the_end_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(of_bridge, "_launched", lambda: (0, 1))
    monkeypatch.setattr(of_bridge, "launch", NOT_JOINED)
    library = Library(1)
    writer = of_bridge.Writer(library, str(tmp_path / "t.json"))
    writer.end()
    written = timeline.read(str(tmp_path / "t.json"))
    joined = types.SimpleNamespace(rank=0, size=1)
    monkeypatch.setattr(of_bridge, "launch", types.SimpleNamespace(current=lambda: joined))
    library.count = 1
    writer.write()  # as the thread does that was about to, when the end took the lock
    assert timeline.read(str(tmp_path / "t.json")) == written and library.count == 1


def test_what_cannot_be_written_is_said_with_its_path(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(of_bridge, "_launched", lambda: (3, 4))
    monkeypatch.setattr(of_bridge, "launch", NOT_JOINED)
    (tmp_path / "t.3.json").mkdir()
    library = Library(1)
    of_bridge.Writer(library, str(tmp_path / "t.json")).end()
    assert capfd.readouterr().err == "sok1x: the timeline {} ends here: Is a directory\n".format(tmp_path / "t.3.json")
    assert library.capacity == 0  # nothing is noted any more


def test_refusals(tmp_path):
    for options, words in ((dict(save_steps=0, output_dir="x"), "save_steps: got 0, expected a positive integer"),
                           (dict(save_steps="7", output_dir="x"), "save_steps: got '7', expected a positive integer"),
                           (dict(save_steps=None, output_dir="x"), "save_steps: got None, expected a positive integer"),
                           (dict(save_steps=1), "expected one of them"),
                           (dict(save_steps=1, output_dir="x", summary_writer=1), "expected one of them"),
                           (dict(save_steps=1, summary_writer=1, every_rank=True), "every_rank: got a summary_writer")):
        with pytest.raises(ValueError, match=words):
            sok.SummaryHook(**options)
    with pytest.raises(TypeError, match="sok1x.summary: layer: got 3 of type int, expected a sok1x.Variable"):
        sok.summary(3)
    with pytest.raises(TypeError, match="sok1x.SummaryHook: tables: got 3 of type int"):
        sok.SummaryHook(1, str(tmp_path), tables=[3])
    with tf.Graph().as_default(), pytest.raises(ValueError, match="got a graph without a global step"):
        sok.SummaryHook(1, str(tmp_path)).begin()
