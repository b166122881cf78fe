"""What a machine without a GPU learns of a GPU's source: that it is right. Its CPU times stand in grey, no speedups."""

from __future__ import annotations

import html

from plots.lib.record import Record, Rung, number

STYLE = (
    "table.right{border-collapse:collapse;font-size:15px}table.right td,table.right th{border:1px solid #ccc;"
    "padding:2px 9px;text-align:left}table.right .grey{color:#767676}table.right .bad{color:#B03A00;font-weight:bold}"
)
SCOPE = "iteration"


def best_scope(record: Record, rung: Rung, workload: str) -> str | None:
    """An iteration's row, else the first that there is."""
    scopes = [row.scope for row in record.rows if (row.variant, row.device, row.workload) == (
        rung.variant, rung.device, workload)]  # fmt: skip
    return SCOPE if SCOPE in scopes else scopes[0] if scopes else None


def cell(record: Record, rung: Rung, workload: str) -> str:
    scope = best_scope(record, rung, workload)
    row = record.row(rung, workload, scope) if scope else None
    if row is None:
        return '<td class="grey">not run</td>'
    if row.timed or row.status == "checked":
        time = f' <span class="grey">{number(row.median_ms)} ms</span>' if row.median_ms else ""
        return f"<td>right{time}</td>"
    kind = "grey" if row.status == "refused" else "bad"
    reason = html.escape(row.reason, quote=True)
    return f'<td class="{kind}" title="{reason}">{row.status}</td>'


def table(record: Record) -> list[str]:
    """Variants by workloads as lines of HTML; none where nothing ran on the CPU device."""
    rungs = record.rungs("simt")
    if not rungs:
        return []
    ran = {row.workload for row in record.rows if row.device == "simt"}
    names = [name for name in record.workloads if name in ran]
    lines = [
        f"<style>{STYLE}</style>",
        "<p>The GPU's source, run by the CPU device (simt): whether each rung is right. In grey the time of an "
        f"{SCOPE} on this CPU, which says nothing of a GPU; a reason stands behind each word that is not "
        "<i>right</i>.</p>",
        '<table class="right"><tr><th>variant</th>' + "".join(f"<th>{html.escape(n)}</th>" for n in names) + "</tr>",
    ]
    for rung in rungs:
        cells = "".join(cell(record, rung, name) for name in names)
        lines.append(f"<tr><td>{html.escape(rung.variant)}</td>{cells}</tr>")
    return [*lines, "</table>"]
