"""Whole checkpoints of no tables, as tf.train.Savers of several ranks save them, with TensorFlow's files made up."""
import os

from sok1x.checkpoint.files import folder_lock, folders, links, manifest, publishing

TOKEN = "0123456789abcdef"


def make(prefix, content="old", link=True, others=(), step=1):
    """A whole checkpoint of no tables, with links."""
    folder = publishing.make_temporary(prefix, folders.new_token())
    names = ["model.ckpt-{}.{}".format(step, one) for one in ("data-00000-of-00001", "index")] + list(others)
    for name in names:
        with open(os.path.join(folder, name), "w") as file:
            file.write(content)
    manifest.write(folder, manifest.Manifest(TOKEN, step, 1, 0, {}, {name: manifest.File(3, 0) for name in names}))
    publishing.publish_as(folder, prefix)
    if link:
        links.link_files(prefix, step, [name for name in names if name not in others], prefix)
    return prefix


def files(folder):
    """{path: content}, without the lock."""
    found = {}
    for path, _, names in os.walk(str(folder)):
        for name in names:
            with open(os.path.join(path, name)) as file:
                found[os.path.relpath(os.path.join(path, name), str(folder))] = file.read()
    found.pop(folder_lock.NAME, None)
    return found


def save(prefix, *endings):
    """As TensorFlow: into the index that is there."""
    for ending in endings:
        with open(prefix + ending, "w") as file:
            file.write("new")
