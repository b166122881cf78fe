"""What a student reads: one page each, without scripts and with nothing fetched; and the class's overview."""

from __future__ import annotations

import difflib
from html import escape
from typing import Any

from grade import hidden

STYLE = """body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ccc}
pre{background:#f6f6f6;padding:.8em;overflow-x:auto;font-size:13px}.a{color:#075}.d{color:#a20}"""


ABOUT = {
    "Workloads": "<p>Those named hidden have points that are not handed out: "
    + "; ".join(f"{name} has {escape(about)}" for name, about in hidden.ABOUT.items())
    + ".</p>"
}


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n{body}</body></html>\n"
    )


def difference(template: str, submission: str) -> str:
    lines = difflib.unified_diff(template.splitlines(), submission.splitlines(), "template", "submission", lineterm="")
    shown = []
    for line in list(lines)[2:]:
        mark = {"+": "a", "-": "d"}.get(line[0], "")
        shown.append(f'<span class="{mark}">{escape(line)}</span>' if mark else escape(line))
    return "\n".join(shown) or "no difference"


def student_page(result: dict[str, Any], points: dict[str, float]) -> str:
    rows = "".join(
        f"<tr><td>{part}</td><td>{'not judged here' if got is None else f'{got:g}'} of {points[part]:g}</td>"
        f"<td>{escape(result['reasons'].get(part, ''))}</td></tr>"
        for part, got in result["points"].items()
    )
    body = f"<p><strong>{escape(result['verdict'])}</strong>. {escape(result['reason'])}</p>\n"
    body += f"<p>{result['total']:g} of {result['of']:g} points</p><table>{rows}</table>\n"
    for heading, lines in (
        ("What may not change", result["changed"]),
        ("Workloads", result["rows"]),
        ("With sanitizers", result["sanitized"]),
        ("Times beside the base and the reference", result["times"]),
    ):
        if lines:
            items = "".join(f"<li>{escape(line)}</li>" for line in lines)
            body += f"<h2>{heading}</h2>{ABOUT.get(heading, '')}<ul>{items}</ul>\n"
    body += f"<h2>Difference to the template</h2><pre>{result['difference']}</pre>\n"
    return _page(result["submission"], body)


def overview(title: str, results: list[dict[str, Any]], pairs: list[tuple[float, int, str, str]]) -> str:
    rows = "".join(
        f'<tr><td><a href="{escape(r["page"])}">{escape(r["submission"])}</a></td>'
        f"<td>{r['total']:g} of {r['of']:g}</td><td>{escape(r['verdict'])}</td>"
        f"<td>{escape(r['reason'][:200])}</td></tr>"
        for r in results
    )
    body = f"<table><tr><th>submission</th><th>points</th><th>verdict</th><th>reason</th></tr>{rows}</table>\n"
    body += "<h2>Alike</h2>"
    if not pairs:
        return _page(title, body + "<p>No two submissions share more than the assignment's threshold.</p>")
    body += "<p>Runs of tokens that one has of the other, whatever their names; without what the template has.</p><ul>"
    for share, shared, one, other in pairs:
        body += f"<li>{share:.0%} ({shared} runs): {escape(one)} and {escape(other)}</li>"
    return _page(title, body + "</ul>")
