"""What the programs of tf.train.Checkpoint's restores share: tables that show by their rows what they were restored
from, and errors that are looked at."""
import numpy as np
import tensorflow as tf

import sok1x as sok

KEYS = np.arange(8)


def new_table(number=0):
    table = sok.DynamicVariable(dimension=2, init_capacity=len(KEYS))
    fill(table, number)
    return table


def fill(table, number):
    """All keys' rows are the number."""
    sok.assign(table, tf.constant(KEYS), tf.fill([len(KEYS), 2], float(number)))


def expect_rows(table, number):
    keys, rows = sok.export(table)
    assert len(keys) and (rows.numpy() == number).all(), rows


def error_of(call):
    """What it raises, or None."""
    try:
        call()
    except Exception as error:
        return error
    return None
