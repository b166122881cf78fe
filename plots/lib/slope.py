"""An iteration's time as the slope between two solves: of the same problem with two fixed numbers of iterations.

What a solve does once, whatever their number (a library's norms of points, its buffers, its first look at the cost), is
in a solve's time by iterations, and not in the slope.
"""

from __future__ import annotations

from dataclasses import replace

from plots.lib.record import Record, Row, Workload

RULE = "fixed:"


def iterations_of(workload: Workload) -> int | None:
    """The number of iterations that the stop rule fixes; None where it does not."""
    return int(workload.stop.removeprefix(RULE)) if workload.stop.startswith(RULE) else None


def differ_in_iterations(a: Workload, b: Workload) -> bool:
    """The same problem from the same start, ended otherwise."""
    return replace(a, name="", family="", title="", stop="") == replace(b, name="", family="", title="", stop="")


def slope_ms(record: Record, row: Row) -> float | None:
    """Milliseconds of an iteration, from this row of a solve and that of the same variant on a workload which differs
    from the row's in its number of iterations alone. That is the one with the fewest, or, where this row has these, the
    next: later iterations, in which fewer labels change, do not count. None where there is no such time, or the longer
    solve took no longer."""
    here = record.workloads[row.workload]
    count = iterations_of(here)
    if row.scope != "solve" or not row.timed or row.median_ms is None or count is None:
        return None
    found: list[tuple[int, float]] = []
    for there in record.workloads.values():
        other = iterations_of(there)
        if other is None or other == count or not differ_in_iterations(here, there):
            continue
        found += [
            (other, twin.median_ms)
            for twin in record.rows
            if (twin.variant, twin.device, twin.workload, twin.scope) == (row.variant, row.device, there.name, "solve")
            and (twin.axes, twin.gpus, twin.cache) == (row.axes, row.gpus, row.cache)
            and twin.timed
            and twin.median_ms is not None
        ]
    if not found:
        return None
    other, ms = min(found)
    slope = (ms - row.median_ms) / (other - count)
    return slope if slope > 0 else None
