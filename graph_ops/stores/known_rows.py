"""Row numbers that our own ops have made in a run, by where they lie: what has been fed lies elsewhere."""

_made = {}  # table's name -> (the run that has made its last ones, {(address, length) of each})


def note(request, table, rows):
    """Remembers `rows`, an int32 `Array` in which this request gives rows of `table`, none twice."""
    note_at(request, table, rows.pointer, rows.size)


def note_at(request, table, pointer, size):
    """As `note`, for int32 [size] at `pointer`."""
    run, made = _made.get(table.name, (None, None))
    if run != request.step:
        made = set()
        _made[table.name] = request.step, made
    made.add((pointer, size))


def noted(request, table, rows):
    """Whether `rows` is such an `Array`, made in the same run. Where runs of one table overlap it may say no."""
    run, made = _made.get(table.name, (None, ()))
    return run == request.step and rows.dtype == "int32" and (rows.pointer, rows.size) in made
