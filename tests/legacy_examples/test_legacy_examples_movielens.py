"""The MovieLens-100k reader: against a slow reading by hand, and on files that are not what they should be."""
import os
import sys
import zipfile

import numpy as np
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "legacy_examples"))

import movielens  # noqa: E402

GOOD = {
    "ml-100k.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
                     "7\t30\t3\t881250949\n9\t10\t4\t1\n7\t10\t5\t2\n7\t20\t1.0\t3\n",
    "ml-100k.user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n"
                    "9\t24\tM\twriter\t85711\n7\t53\tF\tother\tT8H1N\n",
    "ml-100k.item": "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
                    "10\tToy\t1995\tAnimation Children's Comedy\n20\tÉté\t1996\t\n30\tHeat\t1995\tComedy Action\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in GOOD.items():
        (tmp_path / name).write_bytes(text.encode())
    return tmp_path


def change(folder, name, old, new):
    path = folder / name
    text = path.read_bytes()
    assert old in text
    path.write_bytes(text.replace(old, new, 1))


def test_by_hand(folder):
    data = movielens.load(str(folder))
    assert len(data) == 4
    np.testing.assert_array_equal(data.label, np.array([0, 1, 1, 0], np.float32))
    np.testing.assert_array_equal(data.columns["user"], [1, 0, 1, 1])
    np.testing.assert_array_equal(data.columns["item"], [2, 0, 0, 1])
    np.testing.assert_array_equal(data.columns["age"], [1, 0, 1, 1])
    np.testing.assert_array_equal(data.columns["gender"], [0, 1, 0, 0])
    np.testing.assert_array_equal(data.columns["year"], [0, 0, 0, 1])
    assert data.vocabulary == {"user": 2, "item": 3, "age": 2, "gender": 2, "occupation": 2, "zip": 2, "year": 2,
                               "genre": 4}
    # Action 0, Animation 1, Children's 2, Comedy 3; the second film has none.
    np.testing.assert_array_equal(data.genre_values, [3, 0, 1, 2, 3, 1, 2, 3])
    np.testing.assert_array_equal(data.genre_offsets, [0, 2, 5, 8, 8])
    assert data.max_genres == 3
    indices, values = data.genres(np.array([3, 0, 3, 2]))
    np.testing.assert_array_equal(indices, [[1, 0], [1, 1], [3, 0], [3, 1], [3, 2]])
    np.testing.assert_array_equal(values, [3, 0, 1, 2, 3])
    assert [array.shape for array in data.genres(np.array([], np.int64))] == [(0, 2), (0,)]


def test_keys_do_not_collide_between_fields(folder):
    data = movielens.load(str(folder))
    assert data.keys.shape == (4, 7) and data.keys.dtype == np.int64
    fields = [set(column) for column in data.keys.T]
    assert sum(len(field) for field in fields) == len(set.union(*fields))
    assert data.keys.min() >= 0 and data.keys.max() < data.num_keys == 15


def test_split_depends_on_the_seed_alone(folder):
    data = movielens.load(str(folder))
    train, test = data.split(seed=3, test_part=0.25)
    assert len(test) == 1 and sorted(np.concatenate([train, test])) == [0, 1, 2, 3]
    again = data.split(seed=3, test_part=0.25)
    np.testing.assert_array_equal(train, again[0])
    assert any(data.split(seed)[0].tolist() != data.split(0)[0].tolist() for seed in range(1, 9))


@pytest.mark.parametrize("name, old, new, words", [
    ("ml-100k.inter", b"rating:float", b"stars:float", "line 1: expected columns"),
    ("ml-100k.inter", b"9\t10\t4\t1\n", b"9\t10\t4\n", "line 3: expected 4 tab-separated columns, got 3"),
    ("ml-100k.inter", b"9\t10\t4\t1\n", b"9\t10\tgood\t1\n", "line 3: expected a rating from 1 to 5, got 'good'"),
    ("ml-100k.inter", b"9\t10\t4\t1\n", b"9\t10\tnan\t1\n", "line 3: expected a rating from 1 to 5, got 'nan'"),
    ("ml-100k.inter", b"9\t10\t4\t1\n", b"9\t10\t6\t1\n", "line 3: expected a rating from 1 to 5, got '6'"),
    ("ml-100k.inter", b"9\t10\t4\t1\n", b"\n", "line 3: expected 4 tab-separated columns, got 1"),
    ("ml-100k.inter", b"9\t10\t4\t1\n", b"8\t10\t4\t1\n", "no user 8"),
    ("ml-100k.inter", b"9\t10\t4\t1\n", b"9\t99\t4\t1\n", "no item 99"),
    ("ml-100k.user", b"7\t53", b"9\t53", "user 9 is described twice"),
    ("ml-100k.item", "Été".encode(), b"\xff\xfe", "not UTF-8"),
    ("ml-100k.item", b"\tToy", b"\tToy\tStory", "line 2: expected 4 tab-separated columns, got 5"),
])
def test_malformed(folder, name, old, new, words):
    change(folder, name, old, new)
    with pytest.raises(movielens.DataError) as raised:
        movielens.load(str(folder))
    assert words in str(raised.value) and str(folder) in str(raised.value)


def test_empty_missing_and_headers_alone(folder):
    path = folder / "ml-100k.user"
    for text, words in ((GOOD["ml-100k.user"].split("\n")[0], "no rows"), ("", "line 1: expected columns"),
                        (None, "is missing")):
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        with pytest.raises(movielens.DataError, match=words):
            movielens.load(str(folder))


def make_wheel(path, files):
    with zipfile.ZipFile(str(path), "w") as archive:
        for name, text in files.items():
            archive.writestr(movielens.INSIDE + name, text)
    return str(path)


def test_fetch_unpacks_once_and_whole(tmp_path, monkeypatch):
    calls = []

    def download(work):
        calls.append(work)
        return make_wheel(os.path.join(work, "x.whl"), GOOD)

    monkeypatch.setattr(movielens, "download", download)
    target = str(tmp_path / "data" / "ml-100k")
    assert movielens.fetch(target) == target and sorted(os.listdir(target)) == sorted(GOOD)
    assert len(movielens.load(target)) == 4
    movielens.fetch(target)
    assert len(calls) == 1, "a second call starts at once"
    os.remove(os.path.join(target, "ml-100k.user"))
    movielens.fetch(target)
    assert len(calls) == 2 and sorted(os.listdir(target)) == sorted(GOOD)
    assert os.listdir(str(tmp_path / "data")) == ["ml-100k"], "nothing of the work is left"


def test_fetch_leaves_what_is_in_the_folder(tmp_path, monkeypatch):
    """A user's own folder, and one that another process has filled and reads meanwhile."""
    folder, other = tmp_path / "own", str(tmp_path / "other")
    folder.mkdir()
    (folder / "thesis.txt").write_text("years")
    (folder / "ml-100k.user").write_text(GOOD["ml-100k.user"])
    before = os.stat(str(folder / "ml-100k.user")).st_ino
    monkeypatch.setattr(movielens, "download", lambda work: make_wheel(os.path.join(work, "x.whl"), GOOD))
    movielens.fetch(str(folder))
    assert sorted(os.listdir(str(folder))) == sorted(list(GOOD) + ["thesis.txt"])
    assert os.stat(str(folder / "ml-100k.user")).st_ino == before and len(movielens.load(str(folder))) == 4

    def slow(work):
        monkeypatch.setattr(movielens, "download", lambda work: make_wheel(os.path.join(work, "x.whl"), GOOD))
        movielens.fetch(other)
        seen.append(os.stat(other).st_ino)
        return movielens.download(work)

    seen = []
    monkeypatch.setattr(movielens, "download", slow)
    movielens.fetch(other)
    assert [os.stat(other).st_ino] == seen and sorted(os.listdir(other)) == sorted(GOOD)
    assert sorted(os.listdir(str(tmp_path))) == ["other", "own"], "nothing of the work is left"


def test_fetch_of_a_wheel_without_the_data_leaves_nothing(tmp_path, monkeypatch):
    files = {name: text for name, text in GOOD.items() if name != "ml-100k.item"}
    monkeypatch.setattr(movielens, "download", lambda work: make_wheel(os.path.join(work, "x.whl"), files))
    with pytest.raises(movielens.DataError, match="does not hold MovieLens-100k"):
        movielens.fetch(str(tmp_path / "data" / "ml-100k"))
    assert os.listdir(str(tmp_path / "data")) == []


def test_download_that_fails_says_what_to_try(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(movielens.DataError, match="(?s)could not download recbole==.*pip download"):
        movielens.download(str(tmp_path))


@pytest.mark.skipif(not os.path.isdir(movielens.DEFAULT_FOLDER), reason="make data has not run")
def test_the_real_one():
    data = movielens.load()
    assert len(data) == 100000 and data.label.sum() == 55375
    assert (data.vocabulary["user"], data.vocabulary["item"], data.vocabulary["genre"]) == (943, 1682, 19)
    train, test = data.split()
    assert (len(train), len(test)) == (90000, 10000)
    # The first rating: user 196 (49, M, writer, 55105) gave film 242 (Kolya, 1996, Comedy) a 3.
    assert [data.columns[field][0] for field in ("user", "item")] == [195, 241] and data.label[0] == 0
    assert data.genre_offsets[1] == 1
