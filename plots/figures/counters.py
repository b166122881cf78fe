"""Counters of kernels, as `ladder profile` keeps them in profile.json beside a record; and their pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from matplotlib.colors import to_rgb

from plots.figures import bars
from plots.lib.heatmap import readable_on
from plots.lib.record import ROOT, SCOPE_TITLES, Record, number, read_json, renamed
from plots.lib.sources import FigureSpec, Method
from plots.lib.style import COLOURS, GREY, SMALL, WIDTH, Page, text_width

NAME = "profile.json"


@dataclass(frozen=True)
class Profile:
    path: Path
    entries: list[dict[str, Any]]
    meanings: dict[str, str]  # metric -> what it teaches
    units: dict[str, str]

    @property
    def shown(self) -> str:
        path = self.path.resolve()
        return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name

    def entry(self, variant: str, scope: str, workloads: Sequence[str] = ("*",)) -> dict[str, Any] | None:
        """What was counted of the variant in that scope; of several workloads on the largest."""
        fit = [
            e
            for e in self.entries
            if e["variant"] == variant
            and e["kernels"]
            and (not scope or e["scope"] == scope)
            and any(fnmatchcase(e["workload"], p) for p in workloads)
        ]
        return max(fit, key=lambda e: e["n"] * e["d"] * e["k"], default=None)

    def kernel(self, variant: str, scope: str, workloads: Sequence[str] = ("*",)) -> tuple[dict[str, Any], str] | None:
        """The kernel that takes most of the variant's time in that scope, and the workload; of several the largest."""
        entry = self.entry(variant, scope, workloads)
        return (max(entry["kernels"], key=time_of), entry["workload"]) if entry else None

    def workloads(self, variant: str, scope: str) -> list[str]:
        """On which the variant's kernels were counted in that scope, the largest first."""
        found = [e for e in self.entries if e["variant"] == variant and e["kernels"] and e["scope"] == scope]
        return list(dict.fromkeys(e["workload"] for e in sorted(found, key=lambda e: -e["n"] * e["d"] * e["k"])))


def time_of(kernel: dict[str, Any]) -> float:
    return (kernel["metrics"].get("time_ms") or 0) * kernel["launches"]


def of_file(path: Path) -> Profile:
    document = read_json(path)
    known = document.get("metrics", [])
    return Profile(
        path,
        [e | {"variant": renamed().today(e["variant"])} for e in document.get("profiles", [])],
        {metric["name"]: metric["meaning"] for metric in known},
        {metric["name"]: metric["unit"] for metric in known},
    )


def beside(record: Record) -> Profile | None:
    """That of the folder of the record; None where there is none."""
    for source in record.sources:
        path = source.path.resolve().parent / NAME
        if path.is_file():
            return of_file(path)
    return None


def kernels(profile: Profile | None, spec: FigureSpec) -> tuple[dict[Method, dict[str, Any]], str]:
    """Each method's kernel on the figure's workloads, and a sentence that names these."""
    met = {m: profile.kernel(m.rung, spec.scope or "assign", spec.workloads or ("*",)) for m in spec.methods if profile}
    found = {m: kernel for m, kernel in met.items() if kernel}
    where = ", ".join(dict.fromkeys(workload for _, workload in found.values()))
    return {m: kernel for m, (kernel, _) in found.items()}, f"Counted on {where}."


def absent(record: Record, methods: Sequence[Method]) -> str:
    where = record.sources[0].path.parent / NAME
    shown = where.resolve().relative_to(ROOT).as_posix() if where.resolve().is_relative_to(ROOT) else where.name
    names = " ".join(method.rung for method in methods)
    return f"{shown} has no counters of {', '.join(m.rung for m in methods)}: build/ladder profile {names}"


def draw_panels(
    record: Record, profile: Profile | None, spec: FigureSpec, title: str, signature: Sequence[str], folder: Path,
    stem: str,
) -> tuple[bool, list[str]]:  # fmt: skip
    found: dict[str, dict[Method, float]] = {}
    of, where = kernels(profile, spec)
    for panel in spec.panels:
        for m, kernel in of.items():
            value = kernel["metrics"].get(panel["metric"])
            if value is not None:
                found.setdefault(panel["metric"], {})[m] = float(value)
    lacking = [m for m in spec.methods if not any(m in values for values in found.values())]
    missing = [absent(record, lacking)] if lacking else []
    if not found:
        return False, missing
    counted = [(panel, found.get(panel["metric"], {})) for panel in spec.panels]
    drawn, _ = bars.draw(record, replace(spec, note=where), title, signature, folder, stem, counted)
    return drawn, missing


def draw_stalls(
    record: Record, profile: Profile | None, spec: FigureSpec, title: str, signature: Sequence[str], folder: Path,
    stem: str,
) -> tuple[bool, list[str]]:  # fmt: skip
    """Shares of the reasons for which warps wait."""
    of, where = kernels(profile, spec)
    shares = {
        m: [(s["reason"].replace("_", " "), 100 * s["share"]) for s in kernel["stalls"]]
        for m, kernel in of.items()
        if kernel["stalls"]
    }
    subtitle = "share of the time that warps wait, by reason; grey: reasons that are few"
    return draw_stacked(record, spec, title, subtitle, where, shares, signature, folder, stem)


def draw_kernels(
    record: Record, profile: Profile | None, spec: FigureSpec, title: str, signature: Sequence[str], folder: Path,
    stem: str,
) -> tuple[bool, list[str]]:  # fmt: skip
    """Which kernel takes which share of the time that all kernels take."""
    scope = spec.scope or "iteration"
    met = {m: profile.entry(m.rung, scope, spec.workloads or ("*",)) for m in spec.methods if profile}
    shares: dict[Method, list[tuple[str, float]]] = {}
    for m, entry in met.items():
        times = [(k["name"].partition("<")[0], time_of(k)) for k in entry["kernels"]] if entry else []
        whole = sum(time for _, time in times)
        if whole:
            shares[m] = [(name, 100 * time / whole) for name, time in times]
    counted = {e["workload"]: (e["n"], e["d"], e["k"]) for e in met.values() if e}
    sizes = [f"{name} (N = {n:,}, D = {d:,}, K = {k:,})" for name, (n, d, k) in counted.items()]
    where = f"Timed kernel by kernel on {', '.join(sizes)}."
    subtitle = f"share of the kernels' time in {SCOPE_TITLES[scope]}"
    return draw_stacked(record, spec, title, subtitle, where, shares, signature, folder, stem)


def draw_stacked(
    record: Record, spec: FigureSpec, title: str, subtitle: str, where: str,
    shares: dict[Method, list[tuple[str, float]]], signature: Sequence[str], folder: Path, stem: str,
) -> tuple[bool, list[str]]:  # fmt: skip
    """A bar of named shares per method, the largest of them by name."""
    lacking = [m for m in spec.methods if m not in shares]
    missing = [absent(record, lacking)] if lacking else []
    if not shares:
        return False, missing
    totals: dict[str, float] = {}
    for found in shares.values():
        for reason, share in found:
            totals[reason] = totals.get(reason, 0) + share
    named = sorted(totals, key=lambda reason: -totals[reason])[: len(COLOURS)]
    colours = dict(zip(named, COLOURS, strict=False))
    names = max(text_width(m.name) for m in spec.methods) + 0.3
    notes = [where, *([spec.note] if spec.note else [])]
    page = Page(title, subtitle, notes, signature, body=0.8 * len(spec.methods) + 1.6)
    left, bottom = 0.35 + names, page.bottom + 0.85
    height = min(page.top - 0.6 - bottom, 1.1 * len(spec.methods))
    inches = WIDTH - left - 0.6
    ax = page.axes(left, page.top - 0.6 - height, inches, height)
    for y, m in enumerate(spec.methods):
        start = 0.0
        if m not in shares:
            ax.text(1, y, "not in the profile", va="center", color=GREY, style="italic", gid="gap")
        place = {reason: i for i, reason in enumerate(named)}
        for reason, share in sorted(shares.get(m, []), key=lambda pair: place.get(pair[0], len(named))):
            colour = colours.get(reason, "#BBBBBB")
            ax.barh(y, share, left=start, height=0.7, color=colour, edgecolor="white")
            for text in (f"{reason} {number(share)} %", f"{share:.0f} %"):
                if text_width(text) < share / 100 * inches - 0.15:
                    style = {"ha": "center", "va": "center", "color": readable_on(*to_rgb(colour)), "fontsize": SMALL}
                    ax.text(start + share / 2, y, text, gid="value", **style)
                    break
            start += share
    ax.set_xlim(0, 100)
    ax.set_ylim(len(spec.methods) - 0.4, -0.6)
    ax.set_yticks(range(len(spec.methods)), [m.name for m in spec.methods])
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("percent")
    handles = [bars.patch(colours[reason], reason) for reason in named]
    place_at = (left / WIDTH, page.top / page.height)
    style = {"ncols": 6, "frameon": False, "borderaxespad": 0, "fontsize": SMALL}
    page.figure.legend(handles=handles, loc="upper left", bbox_to_anchor=place_at, **style)
    page.save(folder, stem)
    return True, missing
