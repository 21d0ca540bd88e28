"""How a check of `python -m sok1x.check` ends, where it is not well."""


class Failure(Exception):
    """A check that failed: what is wrong, and what to do about it."""

    def __init__(self, wrong: str, remedy: str) -> None:
        super().__init__(wrong)
        self.remedy = remedy


class Note(Exception):
    """Something that is not there and need not be."""
