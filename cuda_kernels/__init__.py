"""The kernels: one NAME.cu per family and, beside it, NAME.py, its only wrapper.

Wrappers take raw pointers as Python ints and sizes as element counts; the caller allocates everything, outputs and
scratch, and keeps it alive. They check nothing that costs more than a comparison: shapes and ranges are the
caller's to know. A call returns when its result is there.

group_NAME does for many tables in one launch what NAME does for one; its wrapper takes a NumPy array of records, one
for each table, with pointers in them (groups.py).
"""
