"""Folders of dumps (dump_load/folder.py) among those of checkpoints: out of sight both are called alike."""
from sok1x.checkpoint.files import folder_lock, folders, manifest, shard_names

LOCK = ".sok1x-dump.lock"  # in the folder while it is written, from when it has been made
LIST = "meta_info"  # of the tables of a dump that is complete


def may_be_one(hidden: str) -> bool:
    """Whether a folder out of sight may be a dump's, which looks after its own.

    Being written it has a lock, which once was that of a checkpoint's folder. Put aside it has its list, or what was no
    dump's, as files of the user's; a checkpoint put aside has its manifest, or what no dump has. What has been made for
    what a run has saved is no dump's either: a dump in it is one of the things that are moved from there.
    """
    names = {entry.name for entry in folders.entries(hidden)}
    if hidden.endswith(".tmp"):
        return not names.isdisjoint((LOCK, folder_lock.NAME))
    if not hidden.endswith(".old") or not names.isdisjoint((manifest.NAME, folders.FOR_OTHERS)):
        return False
    return LIST in names or bool(names) and not any(
        shard_names.is_file_name(name) or folders.is_tensorflows(name) for name in names)
