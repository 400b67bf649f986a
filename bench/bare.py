"""The floors, measured in the same run: the bare drivers with the same writes, and asyncio alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import bare_pick_up
import floors
from comparison import Row
from measuring import CONCURRENCY, PAUSE, Size, percentile
from postgres_floors import Floor
from servers import Places

CALLERS = 50


class Bare:
    def __init__(self, places: Places, folder: Path, size: Size) -> None:
        self._places, self._folder, self._size = places, folder, size
        self._sqlite = Row("bare-sqlite", "*bare sqlite3, the same writes*", "sqlite", settings="claims 500 at a time")
        self._postgres = Row("bare-asyncpg", "*bare asyncpg, the same writes*", "postgresql", settings="the same")
        self._asyncio = Row("asyncio", "*asyncio alone, the same handlers*", "memory")
        self._files = 0

    def measure(self, stores: set[str]) -> None:
        size = self._size
        waiting = floors.run_waiting(size.tasks, CONCURRENCY, PAUSE)
        self._asyncio.add({"drain": floors.run_no_ops(size.tasks), "waiting": waiting}, {})
        if "sqlite" in stores:
            waits = [seconds * 1000 for seconds in bare_pick_up.on_sqlite(self._file(), size.samples)]
            figures = {
                "submit_one": floors.insert(self._file(), size.one_by_one, 1),
                "submit_callers": floors.insert(self._file(), size.tasks, CALLERS),
                "submit_bulk": floors.insert(self._file(), size.tasks, floors.INSERT_BATCH),
                "drain": floors.claim_and_finish(self._file(), size.tasks),
            }
            self._sqlite.add(figures | {"half": percentile(waits, 50), "most": percentile(waits, 99)}, {})
        if "postgresql" in stores:
            picked_up = self._floor(lambda floor, url: bare_pick_up.on_postgres(url, floor, size.samples))
            waits = [seconds * 1000 for seconds in picked_up]
            figures = {
                "submit_one": self._floor(lambda floor, _: floor.insert(size.one_by_one, 1)),
                "submit_callers": self._floor(lambda floor, _: floor.insert(size.tasks, CALLERS)),
                "submit_bulk": self._floor(lambda floor, _: floor.insert(size.tasks)),
                "drain": self._floor(lambda floor, _: floor.claim_and_finish(size.tasks)),
            }
            self._postgres.add(figures | {"half": percentile(waits, 50), "most": percentile(waits, 99)}, {})

    def rows(self) -> list[Row]:
        return [row for row in (self._sqlite, self._postgres, self._asyncio) if row.figures]

    def _file(self) -> Path:
        self._files += 1
        return self._folder / f"bare-{self._files}.db"

    def _floor(self, work: Callable[[Floor, str], Awaitable[Any]]) -> Any:
        url = self._places.new("postgresql")

        async def measured() -> Any:
            floor = await Floor.open(url, "floor")
            try:
                return await work(floor, url)
            finally:
                await floor.close()

        try:
            return asyncio.run(measured())
        finally:
            self._places.used_up(url)
