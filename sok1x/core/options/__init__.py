"""What users say of tables.

    given_numbers       numbers
    given_tables        tables
    arguments           words, dtypes, True and False
    capacities          how many rows
    forgetting_options  which rows leave, and which keys get none
    cache_options       rows in host memory, and a cache
    cached_wholes       ops on the whole of a variable that is a cache: refused
    initializers        how rows begin
    initial_values      likewise, where all of them are given
    key_types           ids as keys
"""
