"""What a killed `sok.Saver().dump_to_file` leaves, and the next one removes."""
import fcntl
import os

from test_sok1x_saver import Model, content

from sok1x.graph_ops.transfer import sok_written


def test_what_killed_dumps_have_left_is_removed(tmp_path):
    """Not what a dump still writes, or may: of its files one is locked, or has no bytes yet."""
    name, model = "EmbeddingVariable_{}.file.{:014x}.{}", Model(tmp_path)
    for what, token, kind in (("keys", 1, "tmp"), ("values", 1, "tmp"), ("keys", 1, "old"), ("values", 2, "old"),
                              ("keys", 3, "tmp"), ("keys", 3, "old"), ("keys", 4, "tmp"), ("keys", 2 ** 60, "tmp")):
        (tmp_path / name.format(what, token, kind)).write_text("" if token == 4 else "x")
    (tmp_path / ("X" + name.format("keys", 1, "tmp"))).write_text("x")
    with open(str(tmp_path / name.format("keys", 3, "tmp"))) as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        model.run(model.dump)
    assert sorted(os.listdir(str(tmp_path))) == sorted(
        ["EmbeddingVariable_keys.file", "EmbeddingVariable_values.file", "X" + name.format("keys", 1, "tmp"),
         name.format("keys", 3, "tmp"), name.format("keys", 3, "old"), name.format("keys", 4, "tmp"),
         name.format("keys", 2 ** 60, "tmp")])


def test_what_a_dump_writes_no_other_removes(tmp_path, monkeypatch):
    model, real, seen = Model(tmp_path), os.pwrite, []
    model.insert([1, 2])

    def pwrite(*arguments):
        for file in sorted(os.listdir(str(tmp_path))):
            seen.append(file)
            sok_written.remove_dead(str(tmp_path / file))
        return real(*arguments)

    monkeypatch.setattr(os, "pwrite", pwrite)
    model.run(model.dump)
    assert len(seen) == 4 and len(content(tmp_path)[0]) == 2 and len(os.listdir(str(tmp_path))) == 2
