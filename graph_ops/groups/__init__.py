"""Ops that are ready together, run together: lookups and gradients of many tables in as many kernels and
exchanges as of one.

form.py         what an operation's grouped form is
batch.py        a group's requests through the bridge's calls for many, and numbers that kernels leave for Python
columns.py      the members' tables as columns of numbers
dense_*.py      the grouped forms of the dense lookup's operations, one rank and several
"""
