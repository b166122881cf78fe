"""docs/outliers.md: what one row costs that is 2^s times as long as it was, against s.

`python -m plots.outliers_page [RECORD...] --update docs/outliers.md` writes it with its picture beside it; `--check`
exits 1 where the file says anything but what the records say. The workloads NAME_outlier_S of a record are compared
with its workload NAME, which has the same points without an outlier row.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from plots.lib import schema
from plots.lib.heatmap import NONE
from plots.lib.inputs import in_sentences
from plots.lib.pages import cell_text, keep_page, page_arguments, records_or
from plots.lib.record import (
    ROOT,
    SCOPE_TITLES,
    TIMES,
    Record,
    RecordError,
    Row,
    number,
    of_one_gpu,
    percent,
)
from plots.lib.style import GREY, MOST_COLOURED, WIDTH, Page, line_style, log_ticks

DEVICE = "cuda"
USUAL = ROOT / "results" / "nvidia-h200" / "outliers.json"
PLAN = ROOT / "results" / "nvidia-h200" / "outliers.toml"
NAMED = re.compile(r"(?P<plain>.+)_outlier_(?P<exponent>\d+)")
SCOPES = ("solve", "end_to_end")  # a panel and a table each
ASKED = 1.1  # times the time without an outlier row
LOG_FROM = 8  # ratio from which the scale is logarithmic


@dataclass(frozen=True)
class Outliers:
    """The workloads of a record that differ in one row alone."""

    record: Record
    plain: str  # the workload without an outlier row
    by_exponent: dict[int, str]

    def row(self, variant: str, workload: str, scope: str) -> Row | None:
        return next((r for r in self.record.rows if r.place == (variant, DEVICE, workload, scope)), None)

    def ms(self, variant: str, workload: str, scope: str) -> float | None:
        """Of a solve per iteration; None where there is no time."""
        row = self.row(variant, workload, scope)
        if row is None or not row.timed:
            return None
        return (row.per_iteration_ms if scope == "solve" else None) or row.median_ms

    def ratio(self, variant: str, exponent: int, scope: str) -> float:
        """Over the time without an outlier row; NaN where one of the two is missing."""
        ms, plain = self.ms(variant, self.by_exponent[exponent], scope), self.ms(variant, self.plain, scope)
        return ms / plain if ms and plain else math.nan

    @property
    def scopes(self) -> list[str]:
        return [scope for scope in SCOPES if self.variants(scope)]

    def variants(self, scope: str) -> list[str]:
        """Those with a time without an outlier row, the slowest first."""
        found = {v: ms for v in self.record.bases if (ms := self.ms(v, self.plain, scope))}
        return sorted(found, key=lambda variant: -found[variant])


def outliers_of(record: Record) -> Outliers:
    """Throws RecordError where the record has no such workloads."""
    matches = [match for name in record.workloads_on(DEVICE, SCOPES) if (match := NAMED.fullmatch(name))]
    plains = sorted({match["plain"] for match in matches})
    if len(plains) != 1:
        found = " and ".join(plains) or "none"
        raise RecordError(f"{record.names}: must have workloads NAME_outlier_S of one NAME on a GPU, and has {found}.")
    found = Outliers(record, plains[0], {int(m["exponent"]): m.string for m in sorted(matches, key=exponent_of)})
    if not found.scopes:
        raise RecordError(f"{record.names}: has no time on {plains[0]}, what the others are compared with.")
    return found


def heading(scope: str) -> str:
    return SCOPE_TITLES[scope] + (", per iteration" if scope == "solve" else "")


def exponent_of(match: re.Match[str]) -> int:
    return int(match["exponent"])


# ----------------------------------------------------------------------------------------------------------- the page


def cell(found: Outliers, variant: str, exponent: int, scope: str) -> str:
    row = found.row(variant, found.by_exponent[exponent], scope)
    if row is None:
        return NONE
    ms = found.ms(variant, found.by_exponent[exponent], scope)
    if ms is None:
        return row.status
    mark = ", unstable" if row.status == "unstable" else ""
    return f"{number(ms)} ms, {found.ratio(variant, exponent, scope):.2f}{TIMES}{mark}"


def verdict(found: Outliers, variant: str, scope: str) -> str:
    """One sentence."""
    ratios = {e: r for e in found.by_exponent if not math.isnan(r := found.ratio(variant, e, scope))}
    if not ratios:
        return f"`{variant}` has no time with an outlier row."
    within = [e for e, ratio in ratios.items() if ratio <= ASKED]
    worst = max(ratios, key=lambda e: ratios[e])
    most = f"most at 2^{worst}, {ratios[worst]:.2f}{TIMES}"
    if len(within) == len(ratios):
        return f"`{variant}` stays within {ASKED:g}{TIMES} at every size: {most}."
    slower = ", ".join(f"2^{e}" for e in ratios if e not in within)
    return f"`{variant}` takes more than {ASKED:g}{TIMES} at {slower}: {most}."


def message(found: Outliers) -> str:
    """What the picture shows, in one line."""
    ratios = [
        (found.ratio(v, e, scope), v, e)
        for scope in found.scopes
        for v in found.variants(scope)
        for e in found.by_exponent
    ]
    worst, variant, exponent = max((entry for entry in ratios if not math.isnan(entry[0])), default=(math.nan, "", 0))
    if math.isnan(worst):
        return "No rung has a time with an outlier row"
    if worst > ASKED:
        return f"One row 2^{exponent} times as long: {number(worst)}{TIMES} the time with {variant}"
    added = f"adds at most {percent(100 * (worst - 1))} to the time" if worst > 1 else "adds nothing to the time"
    return f"One row that is up to 2^{max(found.by_exponent)} times as long {added}"


def labels(found: Outliers) -> str:
    seen = [r.validation for r in found.record.rows if r.device == DEVICE and r.timed and r.validation]
    checked, wrong = (sum(v.get(key) or 0 for v in seen) for key in ("rows_checked", "labels_wrong"))
    return f"Of {checked:,} labels compared with fp64 {wrong:,} are wrong."


def gaps(found: Outliers) -> list[str]:
    names = [found.plain, *found.by_exponent.values()]
    rows = [r for r in found.record.rows if r.device == DEVICE and r.workload in names and r.scope in found.scopes]
    said = dict.fromkeys(f"{r.variant} on {r.workload} is {r.status}: {r.reason}" for r in rows if r.status != "ok")
    return [f"- {cell_text(text)}" for text in said]


def markdown(found: Outliers, given: Sequence[Path], picture: Path) -> str:
    record, sizes = found.record, list(found.by_exponent)
    plain = record.workloads[found.plain]
    files = "".join(f" {path}" for path in given)
    lines = [
        "# What one outlier row costs",
        "",
        f"<!-- Generated: python -m plots.outliers_page{files} --update docs/outliers.md. Do not edit by hand. -->",
        "",
        f"The points of `{found.plain}` ({plain.size}: {plain.title}), of which the one in the middle is multiplied by "
        f"2^s. Rungs whose rows of halves all have one unit leave such a row out of the unit and compare it with all "
        f"centroids exactly ([why that is right](certificate.md#lemma-6-bounds-within-the-product)). A time is the "
        f"median of the samples of one session; of a solve, per iteration. {labels(found)}",
        "",
        f"![Time over that without an outlier row, against the size of the row]({picture.name})",
    ]
    for scope in found.scopes:
        head = ["rung", "no outlier row", *(f"2^{e}" for e in sizes)]
        lines += ["", f"## {heading(scope)[0].upper()}{heading(scope)[1:]}", ""]
        lines += ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
        for variant in found.variants(scope):
            ms = found.ms(variant, found.plain, scope)
            cells = [f"`{variant}`", f"{number(ms)} ms" if ms else NONE]
            cells += [cell(found, variant, e, scope) for e in sizes]
            lines.append("| " + " | ".join(map(cell_text, cells)) + " |")
        lines += ["", *(f"- {verdict(found, variant, scope)}" for variant in found.variants(scope))]
    if said := gaps(found):
        lines += ["", "## What has no time, or one that is not to be trusted", "", *said]
    return "\n".join([*lines, "", f"{record.footer(DEVICE)}.", ""])


# -------------------------------------------------------------------------------------------------------- the picture


def draw_panel(ax: Axes, found: Outliers, scope: str, styles: dict[str, dict[str, object]], height: float) -> None:
    sizes = list(found.by_exponent)
    points = [(1.0, 0)]
    for variant in found.variants(scope):
        ratios = [1.0, *(found.ratio(variant, e, scope) for e in sizes)]
        points += [(ratio, at) for at, ratio in zip([0, *sizes], ratios, strict=True) if not math.isnan(ratio)]
        ax.plot([0, *sizes], ratios, **styles[variant], gid=f"line {variant}")
    drawn = [ratio for ratio, _ in points]
    most, at = max(points)
    if at:  # above the dashed line, not across it
        place = {"xytext": (0, 12), "textcoords": "offset points", "ha": "right", "gid": "most"}
        ax.annotate(f"most: {number(most)}{TIMES}", (at, max(most, ASKED if most > ASKED / 1.2 else 0)), **place)
    ax.axhline(ASKED, color="black", linewidth=1.8, linestyle="--", zorder=1, gid="asked")
    ax.set_xlim(-0.04 * sizes[-1], 1.04 * sizes[-1])
    ax.set_xticks([0, *sizes], ["none", *(f"2^{e}" for e in sizes)])
    if max(drawn) >= LOG_FROM:
        ax.set_yscale("log")
        ax.set_ylim(min(drawn) / 1.3, max(drawn) * 1.3)
        log_ticks(ax, "y", height, TIMES)
        ax.minorticks_off()
    else:
        ax.set_ylim(0, 1.1 * max(*drawn, ASKED))
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}{TIMES}")
    ax.set_title(heading(scope), loc="left", pad=9)
    ax.set_xlabel("the outlier row is so many times as long")


def draw(found: Outliers, given: Sequence[Path], path: Path) -> None:
    record = found.record
    variants = list(dict.fromkeys(variant for scope in found.scopes for variant in found.variants(scope)))
    styles = {v: line_style(i if i < MOST_COLOURED else None) for i, v in enumerate(variants)}
    plain = record.workloads[found.plain]
    subtitle = f"{found.plain}, {plain.size}; time over that without the outlier row, lower is better; dashed: "
    subtitle += f"{ASKED:g}{TIMES}, what is asked for at 2^12"
    files = "".join(f" {record}" for record in given)
    foot = [record.footer(DEVICE), f"drawn by python -m plots.outliers_page{files} --update"]
    page = Page(message(found), subtitle, [], foot)
    left, gutter, below, above = 1.2, 1.3, 0.85, 1.0
    inches = (WIDTH - 0.35 - left - gutter * (len(found.scopes) - 1)) / len(found.scopes)
    bottom = page.bottom + below
    height = page.top - above - bottom
    for at, scope in enumerate(found.scopes):
        ax = page.axes(left + at * (inches + gutter), bottom, inches, height)
        ax.axhline(1, color=GREY, linewidth=1.5, zorder=1)
        draw_panel(ax, found, scope, styles, height)
    page.legend(left, [Line2D([], [], label=variant, **styles[variant]) for variant in variants])
    page.save(path.parent, path.stem, svg=False)


@in_sentences
def main(argv: list[str] | None = None) -> int:
    arguments = page_arguments(argv, "docs/outliers.md", str(USUAL.relative_to(ROOT)))
    found = outliers_of(of_one_gpu([schema.load(path) for path in records_or(arguments, [USUAL], PLAN)]))
    picture = arguments.page.with_suffix(".png")
    if arguments.update:
        draw(found, arguments.records, picture)
    return keep_page(arguments, markdown(found, arguments.records, picture), "python -m plots.outliers_page")


if __name__ == "__main__":
    sys.exit(main())
