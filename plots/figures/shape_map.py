"""The map of shapes: over N, D and K, how many times faster than the best peer the best rung of the ladder is.

A peer is a root from which nothing was made (a library's, say); all others are the ladder. Drawn of families that have,
for the same N, several D and several K. Of a whole solve, the time per iteration is compared; a peer's by the slope
between two numbers of iterations, where the record has both (plots/lib/slope.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from plots.figures.overview import shade
from plots.figures.per_workload import common_beginning
from plots.lib.heatmap import EMPTY, Square, gap_square
from plots.lib.options import Options
from plots.lib.record import DAGGER, DEVICES, SCOPE_TITLES, Gap, Record, Row, Workload, geometric_mean, renamed
from plots.lib.slope import slope_ms
from plots.lib.style import BODY, GREY, LINE, MARGIN, SMALL, WIDTH, Notes, Page, text_width, times

GAP = 0.25  # inches between two panels
AXIS = 0.62  # inches below a panel: its values of D, and what they are
HEAD = 0.45  # inches above a panel
SIZES: tuple[Callable[[Workload], int], ...] = (lambda w: w.n, lambda w: w.d, lambda w: w.k)


@dataclass(frozen=True)
class Place:
    """A shape: the fastest of the ladder there, and the fastest peer."""

    rung: Row
    peer: Row
    slope: float | None = None  # ms of the peer's iteration, where two numbers of iterations tell it

    @property
    def ratio(self) -> float:
        return (self.slope or milliseconds(self.peer)) / milliseconds(self.rung)

    @property
    def marks(self) -> str:
        unstable = "unstable" in (self.rung.status, self.peer.status)
        return (DAGGER if self.rung.launch_bound else "") + ("*" if unstable else "")


def milliseconds(row: Row) -> float:
    """Of one iteration, in whichever scope."""
    found = row.per_iteration_ms or row.median_ms
    assert found
    return found


def fastest(record: Record, device: str, workload: Workload, scope: str, peers: bool) -> Row | Gap:
    """The best of the peers, or of the ladder; or why there is none: what the first of them says that says anything."""
    rungs = [rung for rung in record.rungs(device) if record.lone(rung.variant) == peers]
    rows = [row for rung in rungs if (row := record.row(rung, workload.name, scope))]
    timed = [row for row in rows if row.timed and row.median_ms]
    if timed:
        return min(timed, key=milliseconds)
    kind = "peer" if peers else "rung"
    if not rows:
        return Gap("not run", f"no {kind} has run there.")
    return Gap(f"no {kind}", f"{rows[0].variant} is {rows[0].status}: {rows[0].reason}")


def place_of(record: Record, device: str, workload: Workload, scope: str) -> Place | Gap:
    rung = fastest(record, device, workload, scope, peers=False)
    peer = fastest(record, device, workload, scope, peers=True)
    if isinstance(rung, Gap):
        return rung
    return peer if isinstance(peer, Gap) else Place(rung, peer, slope_ms(record, peer))


def grids(record: Record, device: str, scope: str) -> dict[str, list[Workload]]:
    """Families with several D and several K at some N, where at least one shape can be compared."""
    found = {}
    for family, members in record.families(record.workloads).items():
        of_n = {w.n: [v for v in members if v.n == w.n] for w in members}
        spread = any(len({w.d for w in same}) > 1 and len({w.k for w in same}) > 1 for same in of_n.values())
        if spread and any(isinstance(place_of(record, device, w, scope), Place) for w in members):
            found[family] = members
    return found


def short_names(names: Sequence[str], inches: float) -> dict[str, str]:
    """What names are called in so little room: by their beginnings up to an underscore where not all of them fit, and
    these tell them apart. An id of the past is called so: its number means another rung today."""
    past = renamed().retired
    beginnings = {name: ("former " if name in past else "") + name.split("_")[0] for name in names}
    fit = all(text_width(name) <= inches for name in names)
    return dict(zip(names, names, strict=True)) if fit or len({*beginnings.values()}) < len(names) else beginnings


def heading(family: str, members: Sequence[Workload]) -> str:
    """What the titles of a family have in common, up to a comma; else its name."""
    said = common_beginning([w.title for w in members]).rpartition(",")[0].strip() if len(members) > 1 else ""
    return said or family


def verdict(places: Sequence[Place]) -> str:
    ratios = [place.ratio for place in places]
    ahead = sum(ratio > 1 for ratio in ratios)
    return (
        f"The ladder is ahead on {ahead} of {len(ratios)} shapes: {times(min(ratios))} to {times(max(ratios))}, "
        f"{times(geometric_mean(ratios))} in the geometric mean."
    )


def draw_square(ax: Axes, x: int, y: int, square: Square, lines: Sequence[str]) -> None:
    """The square's text, and smaller lines below it."""
    ax.add_patch(Rectangle((x + 0.02, y + 0.03), 0.96, 0.94, facecolor=square.colour, edgecolor="none"))
    pitch = 1 / (len(lines) + 1.6)
    for index, text in enumerate((square.text, *lines)):
        ax.text(
            x + 0.5,
            y + 0.5 + (len(lines) / 2 - index) * pitch,
            text,
            ha="center",
            va="center",
            color=square.ink,
            fontsize=SMALL if index else BODY,
            weight="normal" if index or square.gap else "bold",
            style="italic" if square.gap else "normal",
            gid="gap" if square.gap else "name" if index else "value",
        )


def draw_page(
    record: Record, options: Options, device: str, scope: str, found: dict[str, list[Workload]], stem: str, folder: Path
) -> str:
    every = [w for members in found.values() for w in members]
    places = {w.name: place_of(record, device, w, scope) for w in every}
    good = [place for place in places.values() if isinstance(place, Place)]
    ns, ds, ks = (sorted({size(w) for w in every}) for size in SIZES)
    peers = [rung.variant for rung in record.rungs(device) if any(p.peer.variant == rung.variant for p in good)]

    left = MARGIN + 0.3 + max(text_width(text) for text in ("K, clusters", *(f"{k:,}" for k in ks)))
    across = (WIDTH - MARGIN - left - GAP * (len(ns) - 1)) / len(ns)  # of a panel
    inches = 0.9 * across / len(ds)  # of a square's text
    called = short_names(sorted({place.rung.variant for place in good}), inches)
    over = short_names(peers, inches - text_width("over ")) if len(peers) > 1 else {}

    notes = Notes()
    most = max(2.0, *(place.ratio for place in good))
    squares: dict[str, tuple[Square, list[str]]] = {}
    for name, place in places.items():
        if isinstance(place, Gap):
            squares[name] = gap_square(place, inches, notes), []
            continue
        lines = [called[place.rung.variant], *([f"over {over[place.peer.variant]}"] if over else [])]
        squares[name] = Square(times(place.ratio) + place.marks, *shade(place.ratio, most)), lines

    each = ", per iteration" if any(place.rung.per_iteration_ms for place in good) else ""
    title = f"Best rung against best peer, {DEVICES[device].title}: {SCOPE_TITLES[scope]}{each}"
    rivals = peers[0] if len(peers) == 1 else f"the best of {', '.join(peers)}"
    subtitle = f"{verdict(good)} Each number: how many times faster its best rung is than {rivals}: blue is faster, "
    subtitle += "white the same, orange slower; below it that rung."
    wins = Counter(place.rung.variant for place in good)
    winners = ", ".join(
        f"{variant} on {count}" + (f" ({called[variant]})" if called[variant] != variant else "")
        for variant, count in wins.most_common()
    )
    remarks = [f"The best rung: {winners}.", "Blank: a shape that this record has not."]
    if any(place.rung.launch_bound for place in good):
        remarks.append(record.launch_note(device))
    if any("*" in place.marks for place in good):
        remarks.append("* unstable: the samples are not to be trusted.")
    remarks += notes.lines()

    row = (3 if over else 2) * BODY * LINE / 72
    body = len(found) * (HEAD + AXIS + len(ks) * row)
    page = Page(title, subtitle, remarks, options.signature(record, "map", device, scope), body=body)
    height = (page.top - page.bottom) / len(found) - HEAD - AXIS
    for at, (family, members) in enumerate(found.items()):
        bottom = page.top - (at + 1) * (HEAD + height) - at * AXIS
        for column, n in enumerate(ns):
            ax = page.axes(left + column * (across + GAP), bottom, across, height)
            ax.set_xlim(0, len(ds))
            ax.set_ylim(0, len(ks))
            ax.grid(visible=False)
            ax.tick_params(length=0)
            for side in ("left", "bottom"):
                ax.spines[side].set_color(EMPTY)
            ax.set_xticks([i + 0.5 for i in range(len(ds))], [f"{d:,}" for d in ds])
            ax.set_yticks([i + 0.5 for i in range(len(ks))], [f"{k:,}" if column == 0 else "" for k in ks])
            ax.set_xlabel("D, features", color=GREY, fontsize=SMALL, labelpad=1)
            ax.set_title(f"{heading(family, members)}, N = {n:,}", loc="left", pad=5)
            for w in members:
                if w.n == n:
                    draw_square(ax, ds.index(w.d), ks.index(w.k), *squares[w.name])
        above = (bottom + height + 0.09) / page.height
        page.figure.text(MARGIN / WIDTH, above, "K, clusters", color=GREY, fontsize=SMALL, va="bottom")
    page.save(folder, stem)
    return title


def draw(record: Record, folder: Path, options: Options) -> tuple[list[tuple[str, str]], list[str]]:
    """Draws all pages. Returns (stem, what it shows) for each page, and why others were left out."""
    drawn: list[tuple[str, str]] = []
    left_out: list[str] = []
    for device in options.devices:
        name = DEVICES[device].stem
        for scope in options.scopes or ("iteration", "solve"):
            found = grids(record, device, scope)
            if not found:
                why = "no family with several D and K at the same N, and times of a rung and of a peer"
                left_out.append(f"map ({name}, {scope}): {why}")
                continue
            stem = f"map_{name}_{scope}"
            drawn.append((stem, draw_page(record, options, device, scope, found, stem, folder)))
    return drawn, left_out
