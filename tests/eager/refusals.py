"""Calls that are to be refused, for programs."""


def refused(kind, words, call):
    """Calls; expects an error of a kind, with these words."""
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError("no error: {}".format(words))
