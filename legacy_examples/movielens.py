"""MovieLens-100k: 100 000 ratings of 1 682 films by 943 people, from the text files that a package ships.

Fetched with pip's own settings from the wheel of recbole 1.2.1; nothing of that package is installed or run.
Data set: F. M. Harper and J. A. Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5 (4), 2015.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

WHEEL = "recbole==1.2.1"
INSIDE = "recbole/dataset_example/ml-100k/"
# file -> the columns it must start with, as its header names them
FILES = {
    "ml-100k.inter": ("user_id:token", "item_id:token", "rating:float"),
    "ml-100k.user": ("user_id:token", "age:token", "gender:token", "occupation:token", "zip_code:token"),
    "ml-100k.item": ("item_id:token", "movie_title:token_seq", "release_year:token", "class:token_seq"),
}
FIELDS = ("user", "item", "age", "gender", "occupation", "zip", "year")
DEFAULT_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".data", "ml-100k")


class DataError(Exception):
    """The data set could not be fetched, or a file is not what it should be."""


def fetch(folder=DEFAULT_FOLDER):
    """Makes sure that the three files are in `folder`, downloading 2 MB where they are not; returns `folder`.

    A new folder appears in one step, whole; into one that is there only files that it lacks are put, each in one step.
    So an interrupted download leaves nothing that a later call would trust, and nothing is taken from another process.
    """
    if not missing(folder):
        return folder
    parent = os.path.dirname(os.path.abspath(folder))
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder if os.path.isdir(folder) else parent) as work:
        unpacked = os.path.join(work, "unpacked")
        os.mkdir(unpacked)
        unpack(download(work), unpacked)
        if not os.path.isdir(folder):
            try:
                os.rename(unpacked, folder)
            except OSError:
                # Another process was first: what it has put there stays.
                if not os.path.isdir(folder):
                    raise
        for name in missing(folder):
            os.replace(os.path.join(unpacked, name), os.path.join(folder, name))
    return folder


def missing(folder):
    """The names of the files that `folder` does not have."""
    return [name for name in FILES if not os.path.isfile(os.path.join(folder, name))]


def download(folder):
    """Downloads the wheel with pip; returns its path."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
               "--disable-pip-version-check", "-d", folder, WHEEL]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if done.returncode or len(wheels) != 1:
        raise DataError("pip could not download {}, which carries MovieLens-100k. Is a package index reachable? "
                        "Run this by hand to see:\n  {}\n{}".format(WHEEL, " ".join(command), done.stdout[-2000:]))
    return os.path.join(folder, wheels[0])


def unpack(wheel, folder):
    """Copies the three files out of the wheel."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in FILES:
                with archive.open(INSIDE + name) as source, open(os.path.join(folder, name), "wb") as target:
                    shutil.copyfileobj(source, target)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DataError("{} does not hold MovieLens-100k as expected: {}".format(os.path.basename(wheel), error))


def read_table(folder, name):
    """One tab-separated file as a dict of columns (lists of str), keyed by the names in its header."""
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        raise DataError("{} is missing: fetch the data again ({})".format(path, __file__)) from None
    except UnicodeDecodeError as error:
        raise DataError("{} is not UTF-8 text: {}".format(path, error)) from None
    while lines and not lines[-1]:
        lines.pop()
    header = lines[0].split("\t") if lines else []
    wanted = FILES[name]
    if tuple(header[:len(wanted)]) != wanted:
        raise DataError("{} line 1: expected columns {}, got {}".format(path, list(wanted), header[:10]))
    rows = [line.split("\t") for line in lines[1:]]
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise DataError("{} line {}: expected {} tab-separated columns, got {}".format(
                path, number + 2, len(header), len(row)))
    if not rows:
        raise DataError("{} has a header and no rows".format(path))
    return dict(zip(header, zip(*rows)))


def number_distinct(values):
    """Strings -> (int64 ids from 0 in sorted order, how many there are)."""
    names, ids = np.unique(np.array(values), return_inverse=True)
    return ids.astype(np.int64), len(names)


def rows_of(path, what, wanted, known):
    """For each name of `wanted`, its place in `known`; names that are not there, or twice there, are errors."""
    places = {name: place for place, name in enumerate(known)}
    if len(places) != len(known):
        twice = next(name for place, name in enumerate(known) if places[name] != place)
        raise DataError("{}: {} {} is described twice".format(path, what, twice))
    try:
        return np.array([places[name] for name in wanted], np.int64)
    except KeyError as error:
        raise DataError("{} has no {} {}, which a rating names".format(path, what, error.args[0])) from None


class Ratings:
    """The ratings, R of them, as arrays.

    label           float32 [R]      1 where the rating is at least 4, else 0
    columns         {field: int64 [R]}   ids from 0, one array for each of FIELDS
    vocabulary      {field: int}     how many ids a field has; also 'genre'
    keys            int64 [R, 7]     the columns side by side, made distinct across fields: one table serves all
    num_keys        int              how many keys there are: every key is in [0, num_keys)
    genre_values    int64 [G]        genre ids of all ratings, one after another
    genre_offsets   int64 [R + 1]    rating r has genre_values[genre_offsets[r]:genre_offsets[r + 1]]
    max_genres      int              the most genres that a film has
    """

    def __init__(self, label, columns, vocabulary, item_genres):
        """`item_genres`: (values, offsets) by item id."""
        self.label, self.columns, self.vocabulary = label, columns, vocabulary
        starts = np.cumsum([0] + [vocabulary[field] for field in FIELDS])
        self.keys = np.stack([columns[field] for field in FIELDS], axis=1) + starts[:-1]
        self.num_keys = int(starts[-1])
        values, offsets = item_genres
        self.max_genres = int(np.diff(offsets).max())
        self.genre_values, self.genre_offsets = take_ragged(values, offsets, columns["item"])

    def __len__(self):
        return len(self.label)

    def genres(self, rows):
        """Genres of the ratings `rows` (int64 [B]) as a sparse matrix [B, max_genres]: (indices [n, 2], values [n])."""
        values, offsets = take_ragged(self.genre_values, self.genre_offsets, rows)
        row = np.repeat(np.arange(len(rows)), np.diff(offsets))
        return np.stack([row, np.arange(len(values)) - offsets[row]], axis=1), values

    def split(self, seed=0, test_part=0.1):
        """A random split that depends on `seed` alone: (train rows, test rows), int64, in random order."""
        order = np.random.RandomState(seed).permutation(len(self))
        tests = int(round(len(self) * test_part))
        return order[tests:], order[:tests]


def take_ragged(values, offsets, rows):
    """Rows of a ragged array, in the order asked: (values, offsets)."""
    counts = np.diff(offsets)[rows]
    taken = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    inside = np.arange(taken[-1]) - np.repeat(taken[:-1], counts)
    return values[np.repeat(offsets[rows], counts) + inside], taken


def load(folder=DEFAULT_FOLDER):
    """Reads the three files into a `Ratings`; raises DataError, with file and line, where they are malformed."""
    inter, user, item = (read_table(folder, name) for name in FILES)
    path = os.path.join(folder, "ml-100k.inter")
    for number, value in enumerate(inter["rating:float"]):
        if not is_rating(value):
            raise DataError("{} line {}: expected a rating from 1 to 5, got '{}'".format(path, number + 2, value))
    rating = np.array(inter["rating:float"]).astype(np.float32)

    of_user = rows_of(os.path.join(folder, "ml-100k.user"), "user", inter["user_id:token"], user["user_id:token"])
    of_item = rows_of(os.path.join(folder, "ml-100k.item"), "item", inter["item_id:token"], item["item_id:token"])
    columns, vocabulary = {"user": of_user, "item": of_item}, {}
    vocabulary["user"], vocabulary["item"] = len(user["user_id:token"]), len(item["item_id:token"])
    for field, source, name, rows in (("age", user, "age:token", of_user), ("gender", user, "gender:token", of_user),
                                      ("occupation", user, "occupation:token", of_user),
                                      ("zip", user, "zip_code:token", of_user),
                                      ("year", item, "release_year:token", of_item)):
        ids, vocabulary[field] = number_distinct(source[name])
        columns[field] = ids[rows]

    words = [names.split() for names in item["class:token_seq"]]
    values, vocabulary["genre"] = number_distinct([word for names in words for word in names])
    offsets = np.cumsum([0] + [len(names) for names in words]).astype(np.int64)
    return Ratings((rating >= 4).astype(np.float32), columns, vocabulary, (values, offsets))


def is_rating(text):
    """Whether a string is a number from 1 to 5."""
    try:
        return 1 <= float(text) <= 5
    except ValueError:
        return False


if __name__ == "__main__":
    try:
        target = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_FOLDER
        fresh = not os.path.isdir(target)
        data = load(fetch(target))
        if fresh:
            print("MovieLens-100k: {} ratings in {}".format(len(data), target))
    except DataError as problem:
        sys.exit("MovieLens-100k: {}".format(problem))
