"""Plots as plain SVG: a bar for each system, or a span from one value to another."""

from __future__ import annotations

import math
from html import escape

ROW, LEFT, WIDTH, RIGHT = 22, 260, 420, 130
COLOURS = {"tenure": "#0b7285", "peer": "#adb5bd", "floor": "#e9c46a"}
STYLE = "text{font:13px sans-serif;fill:#212529}.title{font-weight:600}"


def bars(title: str, rows: list[tuple[str, float | None, str]]) -> str:
    """The longest first; whoever has no figure has no bar."""
    known = sorted(((name, value, kind) for name, value, kind in rows if value), key=lambda row: -row[1])
    most = max((value for _, value, _ in known), default=1.0)
    drawn = []
    for place, (name, value, kind) in enumerate(known):
        drawn += _labelled(place, name, f"{value:,.0f}", 0, value / most * WIDTH, kind)
    return _rows(title, len(known), drawn)


def spans(title: str, rows: list[tuple[str, float | None, float | None, str]]) -> str:
    """On a logarithmic scale, the shortest first."""
    known = sorted(((name, low, high, kind) for name, low, high, kind in rows if low and high), key=lambda row: row[1])
    least = min((low for _, low, _, _ in known), default=1.0) / 2
    whole = math.log(max((high for _, _, high, _ in known), default=2.0) / least)
    drawn = []
    for place, (name, low, high, kind) in enumerate(known):
        begin, end = (math.log(value / least) / whole * WIDTH for value in (low, high))
        drawn += _labelled(place, name, f"{low:.1f} to {high:.1f}", begin, end, kind)
    return _rows(title, len(known), drawn)


def _labelled(place: int, name: str, figure: str, begin: float, end: float, kind: str) -> list[str]:
    top = 40 + place * ROW
    place_and_size = f'x="{LEFT + begin:.1f}" y="{top}" width="{max(end - begin, 1):.1f}" height="{ROW - 5}"'
    return [
        f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>',
        f'<rect {place_and_size} fill="{COLOURS[kind]}"/>',
        f'<text x="{LEFT + end + 6:.1f}" y="{top + 13}">{figure}</text>',
    ]


def _rows(title: str, rows: int, drawn: list[str]) -> str:
    return drawing(title, LEFT + WIDTH + RIGHT, 50 + rows * ROW, drawn)


def drawing(title: str, width: int, height: int, drawn: list[str]) -> str:
    """A whole file. The ground is white, because a reader may have a dark page."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
            f'<style>{STYLE}</style><rect width="{width}" height="{height}" fill="#fff"/>',
            f'<text x="10" y="22" class="title">{escape(title)}</text>',
            *drawn,
            "</svg>",
            "",
        ]
    )
