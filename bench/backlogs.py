"""Tenure beside a backlog: tasks that ended, that are scheduled, that wait behind one ordering key."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from comparison import Row
from measuring import Measurement, Size
from processes import Failed
from servers import Places
from sqlite import SHAPES, _with
from systems import System

NAMES = {
    "ended tasks": "beside_ended",
    "scheduled tasks": "beside_scheduled",
    "tasks behind one ordering key": "beside_ordered",
}


def drains_beside(
    system: System, row: Row, size: Size, places: Places, folder: Path, choices: argparse.Namespace
) -> None:
    """Each shape is made once; every repeat drains beside it, and on an empty store right before."""
    for shape, make in SHAPES.items():
        count = choices.backlog // 10 if "key" in shape else choices.backlog
        print(f"{system.name} beside {count:,} {shape}", file=sys.stderr, flush=True)
        empty, full = places.new(system.store), places.new(system.store)
        asyncio.run(_with(full, lambda queue, make=make, count=count: make(queue, count)))
        measurement = Measurement(system, size, places, folder)
        for _ in range(choices.repeats):
            try:
                alone = measurement.drain_beside(empty)
                row.add({NAMES[shape]: measurement.drain_beside(full) / alone * 100}, {})
            except Failed as error:
                row.add({}, {NAMES[shape]: str(error)})
        places.used_up(empty)
        places.used_up(full)
