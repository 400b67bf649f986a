"""The panels of a dashboard for Grafana as plain SVG: each in its place of the grid, with its lines over time."""

from __future__ import annotations

import math
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

import plots

COLUMN, ROW = 40, 32
"""The size of a cell of Grafana's grid, which has 24 columns."""
LEFT, RIGHT, TOP, BOTTOM = 58, 18, 42, 66
HEAD, LINE = 40, 14
LISTED = 8
"""Lines that the legend of a panel names; Grafana has a scroll bar for more."""
COLOURS = (
    "#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e", "#c2255c", "#e0a800", "#1971c2", "#868e96", "#862e9c", "#66a80f",
)  # fmt: skip
STYLE = (
    "text.small{font-size:11px;fill:#495057}.panel{fill:#fff;stroke:#dee2e6}.grid{stroke:#e9ecef}.mark{stroke:#ced4da;"
    "stroke-dasharray:2 3}text.letter{font-size:10px;fill:#868e96}.line{fill:none;stroke-width:1.5;stroke-linejoin:round}"
)


class Series(NamedTuple):
    """A line of a panel: its name in the legend, and its value at each second of the run that has one."""

    name: str
    points: list[tuple[float, float]]

    @property
    def peak(self) -> float:
        return max((value for _, value in self.points), default=0.0)


class Mark(NamedTuple):
    """Something that happened during the run."""

    second: float
    text: str


def picture(title: str, panels: list[dict[str, Any]], series: list[list[Series]], marks: list[Mark], end: float) -> str:
    """All panels of a run of `end` seconds, and a letter for each mark."""
    key, head = _key(marks)
    width = 24 * COLUMN
    height = head + max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * ROW
    drawn = [f"<style>{STYLE}</style>", *key]
    for panel, lines in zip(panels, series, strict=True):
        place = panel["gridPos"]
        drawn.append(f'<g transform="translate({place["x"] * COLUMN} {head + place["y"] * ROW})">')
        drawn += _Panel(panel, lines, marks, end).drawn()
        drawn.append("</g>")
    return plots.drawing(title, width, height, drawn)


def _key(marks: list[Mark]) -> tuple[list[str], int]:
    """What the letters say, in three columns, and where the first panel begins."""
    rows = math.ceil(len(marks) / 3)
    texts = []
    for number, mark in enumerate(marks):
        column, row = divmod(number, rows)
        said = f"{_letter(number)}: {mark.text}"
        texts.append(_text(10 + column * 8 * COLUMN, HEAD + 4 + row * (LINE + 2), said))
    return texts, HEAD + rows * (LINE + 2) + 4


class _Panel:
    """One graph. Its scale begins at zero, as the dashboard asks."""

    def __init__(self, panel: dict[str, Any], series: list[Series], marks: list[Mark], end: float) -> None:
        self._title, self._unit = panel["title"], panel["fieldConfig"]["defaults"]["unit"]
        self._width, self._height = panel["gridPos"]["w"] * COLUMN - 8, panel["gridPos"]["h"] * ROW - 8
        self._right, self._floor = self._width - RIGHT, self._height - BOTTOM
        # The largest is drawn first, so that the small ones lie on it and can be seen.
        self._series = sorted(series, key=lambda line: -line.peak)
        self._marks, self._end = marks, end
        self._step = _step(max((line.peak for line in series), default=0.0), self._unit)
        self._top = self._step * max(1, math.ceil(max((line.peak for line in series), default=0.0) / self._step))

    def drawn(self) -> list[str]:
        frame = f'<rect x="4" y="4" width="{self._width}" height="{self._height}" rx="3" class="panel"/>'
        title = f'<text x="14" y="24" class="title">{escape(self._title)}</text>'
        return [frame, title, *self._values(), *self._times(), *self._lines(), *self._legend()]

    def _x(self, second: float) -> float:
        return LEFT + second / self._end * (self._right - LEFT)

    def _y(self, value: float) -> float:
        return self._floor - value / self._top * (self._floor - TOP)

    def _values(self) -> list[str]:
        drawn = []
        for number in range(round(self._top / self._step) + 1):
            value = number * self._step
            drawn.append(_rule(LEFT, self._y(value), self._right, self._y(value), "grid"))
            drawn.append(_text(LEFT - 6, self._y(value) + 4, figure(value, self._unit), anchor="end"))
        return drawn

    def _times(self) -> list[str]:
        drawn = []
        for number, mark in enumerate(self._marks):
            x = self._x(mark.second)
            drawn.append(_rule(x, TOP - 2, x, self._floor, "mark"))
            drawn.append(
                f'<text x="{x:.1f}" y="{TOP - 5}" class="letter" text-anchor="middle">{_letter(number)}</text>'
            )
        seconds = range(0, int(self._end) + 1, 30)
        return drawn + [_text(self._x(each), self._floor + 15, clock(each), anchor="middle") for each in seconds]

    def _lines(self) -> list[str]:
        drawn = []
        for number, line in enumerate(self._series):
            paths = [path for part in _unbroken(line.points) if (path := self._path(part))]
            if paths:
                drawn.append(f'<path d="{"".join(paths)}" class="line" {_pen(number)}/>')
        return drawn

    def _path(self, points: list[tuple[float, float]]) -> str:
        """A level stretch needs no points but its ends."""
        places = [(f"{self._x(second):.1f}", f"{self._y(value):.1f}") for second, value in points]
        kept = [
            f"{x} {y}"
            for number, (x, y) in enumerate(places)
            if not 0 < number < len(places) - 1 or not places[number - 1][1] == y == places[number + 1][1]
        ]
        return f"M{'L'.join(kept)}" if len(kept) > 1 else f"M{kept[0]}h1"

    def _legend(self) -> list[str]:
        drawn: list[str] = []
        x, y = 14.0, self._floor + 33.0
        listed, rest = self._series[:LISTED], self._series[LISTED:]
        names = [(line.name, _pen(number)) for number, line in enumerate(listed)]
        if rest:
            names.append((f"and {len(rest)} more{'' if rest[0].peak else ', all at 0'}", ""))
        for name, pen in names or [("no data", "")]:
            width = _width(name) + (30 if pen else 10)
            if x + width > self._width and x > 14:
                x, y = 14.0, y + LINE
            if pen:
                drawn.append(f'<path d="M{x:.0f} {y - 4:.0f}h12" class="line" {pen}/>')
            drawn.append(_text(x + (16 if pen else 0), y, name))
            x += width
        return drawn


def _unbroken(points: list[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """A line is broken where Prometheus has no value: more than the usual distance is a gap."""
    if len(points) < 2:
        return [points] if points else []
    usual = min(later - sooner for (sooner, _), (later, _) in pairwise(points))
    parts = [[points[0]]]
    for before, point in pairwise(points):
        if point[0] - before[0] > 1.5 * usual:
            parts.append([])
        parts[-1].append(point)
    return parts


def _step(peak: float, unit: str) -> float:
    """A round distance between the lines of a scale, of which there are three to five."""
    if unit == "s" and peak > 100:
        return next((step for step in (30, 60, 120, 300, 900, 1800, 3600, 6 * 3600) if peak / step <= 5), 86_400)
    rough = (peak or 1.0) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step for factor in (1, 2, 2.5, 5, 10) if (step := factor * power) >= rough * 0.999)


def figure(value: float, unit: str) -> str:
    """A value of an axis in a unit of Grafana."""
    if unit == "percentunit":
        return f"{value * 100:g} %"
    if unit == "ops":
        return f"{value:g}/s"
    if unit == "s":
        return _duration(value)
    return f"{value / 1000:g} k" if value >= 1000 else f"{value:g}"


def _duration(seconds: float) -> str:
    if seconds == 0:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1000:g} ms"
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {name}"
    return f"{seconds:g} s"


def clock(second: float) -> str:
    """Minutes and seconds since the run began."""
    return f"{int(second) // 60}:{int(second) % 60:02}"


def _letter(number: int) -> str:
    return chr(ord("a") + number)


def _pen(number: int) -> str:
    """After all colours they come again, dashed."""
    dashes = ("", ' stroke-dasharray="5 3"', ' stroke-dasharray="1.5 2.5"')[number // len(COLOURS) % 3]
    return f'stroke="{COLOURS[number % len(COLOURS)]}"{dashes}'


def _width(text: str) -> float:
    """Nearly: who reads it chooses the font."""
    return len(text) * 5.8


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="small" text-anchor="{anchor}">{escape(text)}</text>'


def _rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" class="{kind}"/>'
