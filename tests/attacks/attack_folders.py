"""The folders of attacks: each has the files in which a checkpoint differs from `base`, and a list of what it lacks."""
import os
import shutil
import tempfile

from forging import HERE, make_base, read, write

REMOVED = "removed.txt"


def assemble(name, folder):
    """Copies the base to `folder`, which is not there yet, and an attack's files over it."""
    shutil.copytree(os.path.join(HERE, "base"), folder)
    source = os.path.join(HERE, name)
    removed = os.path.join(source, REMOVED)
    if os.path.exists(removed):
        with open(removed) as stream:
            for file in stream.read().split():
                os.unlink(os.path.join(folder, file))
    for file in os.listdir(source):
        path, target = os.path.join(source, file), os.path.join(folder, file)
        if file == REMOVED:
            continue
        if os.path.lexists(target):
            os.unlink(target)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.copytree(path, target)
        else:
            shutil.copyfile(path, target, follow_symlinks=False)


def make_all(attacks, target):
    """Writes `base` and the folder of every attack below `target`."""
    with tempfile.TemporaryDirectory() as scratch:
        base = make_base(scratch)
        shutil.copytree(base, os.path.join(target, "base"))
        for name, (change, _, _) in attacks.items():
            changed = os.path.join(scratch, name)
            shutil.copytree(base, changed)
            change(changed)
            _keep_differences(base, changed, os.path.join(target, name))
            shutil.rmtree(changed)


def _keep_differences(base, changed, target):
    os.mkdir(target)
    for file in sorted(os.listdir(changed)):
        path = os.path.join(changed, file)
        plain = os.path.isfile(path) and not os.path.islink(path)
        if not plain or not os.path.exists(os.path.join(base, file)) or read(base, file) != read(changed, file):
            os.rename(path, os.path.join(target, file))
    gone = sorted(set(os.listdir(base)) - set(os.listdir(changed)) - set(os.listdir(target)))
    if gone:
        write(target, REMOVED, "\n".join(gone + [""]).encode())
