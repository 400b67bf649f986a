"""Moving a queue: everything out of one store and into another, without losing or doubling anything.

Records keep their ids, versions and histories, so putting one in twice changes nothing, and an
interrupted move is simply made again. What runs cannot be moved: its worker would lose its
claim. It is waited for, or left behind and named.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import timedelta
from typing import BinaryIO

import msgspec

from tenure.errors import DamagedRecord, InvalidInput, TenureError
from tenure.idempotency import Reservation, read_reservation
from tenure.queue import Queue
from tenure.stores.base import Change, Piece, Store
from tenure.stores.options import without_password
from tenure.task import Task, TaskStatus, decode, encode

BATCH = 500
PASSES = 5
FILE_FORMAT = 1

Advance = Callable[[int], None]


class Report(msgspec.Struct):
    """What came of a move."""

    tasks: int = 0
    """Tasks that were put in."""
    updated: int = 0
    """Tasks that had been put in before, and have gone on since."""
    there: int = 0
    """Tasks that were there already."""
    stones: int = 0
    reservations: int = 0
    running: list[str] = []
    """Left behind, because they run."""
    damaged: list[str] = []
    """Left behind, because they cannot be read."""
    conflicts: list[str] = []
    """What differs in both places and was left as it is."""

    @property
    def complete(self) -> bool:
        """Whether everything is where it should be."""
        return not (self.running or self.damaged or self.conflicts)


_ABSENT = msgspec.Raw(b"")


class Line(msgspec.Struct, omit_defaults=True):
    """One line of an export: a heading, a record, a place to go on from, or the end with the counts."""

    tenure_export: int | None = None
    task: msgspec.Raw = _ABSENT
    stone: msgspec.Raw = _ABSENT
    reservation: msgspec.Raw = _ABSENT
    damaged: str | None = None
    cursor: str | None = None
    end: dict[str, int] | None = None


_lines = msgspec.json.Decoder(Line)


class Read(msgspec.Struct):
    """A line with its record."""

    line: Line
    task: Task | None = None
    stone: Task | None = None
    reservation: Reservation | None = None


class ExportUnusable(TenureError):
    """A file that cannot be imported or gone on with."""


async def pause_all(queue: Queue, reason: str) -> list[str]:
    """Pause every queue that has tasks, so that nothing is claimed while it moves; the names of those paused now."""
    paused = await queue.paused()
    names = {lane.queue for lane in await queue.store.count()} | {"default"}
    new = sorted(names - paused.keys())
    for name in new:
        await queue.pause(name, reason)
    return new


async def wait_for_running(queue: Queue, patience: timedelta) -> int:
    """Wait until nothing runs, or patience is over; how many still run."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience.total_seconds()
    while True:
        mark = queue.store.mark()
        running = (await queue.counts())[TaskStatus.Running]
        left = deadline - loop.time()
        if not running or left <= 0:
            return running
        await queue.store.wait(mark, min(left, 1.0))


async def copy(source: Queue, target: Queue, advance: Advance = lambda _: None) -> Report:
    """Put everything of one store into another.

    A second pass sees whether all of it stands there, and takes along what came meanwhile.
    """
    report = await _copy_once(source.store, target, advance)
    for _ in range(PASSES):
        before = report.tasks + report.updated + report.stones + report.reservations
        again = await _copy_once(source.store, target, lambda _: None)
        report = _joined(report, again)
        if report.tasks + report.updated + report.stones + report.reservations == before:
            break
    return report


async def _copy_once(source: Store, target: Queue, advance: Advance) -> Report:
    report = Report()
    async for piece in pieces(source):
        await put(target, without_running(piece, report), report)
        advance(len(piece.tasks))
    return report


def _joined(first: Report, again: Report) -> Report:
    """The later pass knows best what is left behind; what it found in place had been counted before."""
    return msgspec.structs.replace(
        again,
        tasks=first.tasks + again.tasks,
        updated=first.updated + again.updated,
        there=first.there,
        stones=first.stones + again.stones,
        reservations=first.reservations + again.reservations,
    )


async def pieces(store: Store, cursor: str | None = None) -> AsyncIterator[Piece]:
    """Everything that a store keeps, from a cursor on."""
    while True:
        piece = await store.dump(cursor, BATCH)
        yield piece
        if (cursor := piece.cursor) is None:
            return


def without_running(piece: Piece, report: Report) -> Piece:
    """The piece without what cannot be moved, which is noted in the report."""
    running = [task.id for task in piece.tasks if task.status is TaskStatus.Running]
    report.running += running
    report.damaged += piece.damaged
    if not running:
        return piece
    return msgspec.structs.replace(piece, tasks=[task for task in piece.tasks if task.status is not TaskStatus.Running])


async def put(target: Queue, piece: Piece, report: Report) -> None:
    """Put a piece in, and settle what stands there already."""
    if not (piece.tasks or piece.stones or piece.reservations):
        return
    now = await target.now()
    there = await target.store.restore(piece, now)
    report.tasks += len(piece.tasks) - len(there.tasks)
    report.stones += len(piece.stones) - len(there.stones)
    report.reservations += len(piece.reservations) - len(there.reservations)
    incoming = {task.id: task for task in (*piece.tasks, *piece.stones)}
    for found in (*there.tasks, *there.stones):
        await _settle(target.store, found, incoming[found.id], report)
    wanted = {reservation.identity: reservation for reservation in piece.reservations}
    for held in there.reservations:
        if held.task_id != wanted[held.identity].task_id:
            report.conflicts.append(
                f"key {held.key!r} belongs to task {held.task_id} there and to {wanted[held.identity].task_id} here"
            )


async def _settle(store: Store, found: Task, incoming: Task, report: Report) -> None:
    """A task that is in both places: whichever history goes on from the other is the newer one."""
    pruned = len(found.history) == 1 and found.version >= incoming.version
    if incoming.history[-1] in found.history or pruned:
        report.there += 1
        return
    if found.history[-1] in incoming.history:
        (done,) = await store.swap([Change(found, incoming)])
        if done:
            report.updated += 1
            return
    report.conflicts.append(f"task {found.id} is {found.status} there and {incoming.status} here: each went on alone")


async def export(queue: Queue, file: BinaryIO, cursor: str | None = None, advance: Advance = lambda _: None) -> Report:
    """Write everything as lines of JSON; each piece ends with a place to go on from."""
    report = Report()
    if cursor is None:
        file.write(_line(Line(tenure_export=FILE_FORMAT)))
    async for piece in pieces(queue.store, cursor):
        moved = without_running(piece, report)
        file.writelines(_record_lines(moved))
        report.tasks += len(moved.tasks)
        report.stones += len(moved.stones)
        report.reservations += len(moved.reservations)
        if piece.cursor is not None:
            file.write(_line(Line(cursor=piece.cursor)))
        file.flush()
        advance(len(piece.tasks))
    counts = {"tasks": report.tasks, "stones": report.stones, "reservations": report.reservations}
    file.write(_line(Line(end=counts)))
    file.flush()
    return report


def _record_lines(piece: Piece) -> Iterator[bytes]:
    for task in piece.tasks:
        yield b'{"task":' + encode(task) + b"}\n"
    for stone in piece.stones:
        yield b'{"stone":' + encode(stone) + b"}\n"
    for reservation in piece.reservations:
        yield b'{"reservation":' + msgspec.json.encode(reservation) + b"}\n"
    for name in piece.damaged:
        yield _line(Line(damaged=name))


def _line(line: Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def place_to_go_on(file: BinaryIO) -> tuple[int, str | None]:
    """Where an interrupted export ended: the length of what is whole, and the cursor after it."""
    length, cursor = 0, None
    position = 0
    for number, line in enumerate(_whole_lines(file), start=1):
        position += len(line)
        read = _read(line, number)
        if read.line.end is not None:
            msg = "This export is complete. There is nothing to go on with."
            raise ExportUnusable(msg)
        if read.line.cursor is not None:
            length, cursor = position, read.line.cursor
    return length, cursor


def _whole_lines(file: Iterable[bytes]) -> Iterator[bytes]:
    """An interrupted write leaves half a line at the end."""
    return (line for line in file if line.endswith(b"\n"))


def check(file: BinaryIO) -> int:
    """Whether a file is a whole export; how many tasks it holds."""
    found = {"tasks": 0, "stones": 0, "reservations": 0}
    promised: dict[str, int] | None = None
    for number, line in enumerate(_whole_lines(file), start=1):
        read = _read(line, number)
        if number == 1 and read.line.tenure_export is None:
            msg = "This is no export of Tenure: its first line does not say so."
            raise ExportUnusable(msg)
        found["tasks"] += read.task is not None
        found["stones"] += read.stone is not None
        found["reservations"] += read.reservation is not None
        promised = read.line.end or promised
    if promised is None:
        msg = "This export is cut off: its last line is missing. Finish it with: tenure export FILE --resume"
        raise ExportUnusable(msg)
    if any(promised.get(name, 0) > count for name, count in found.items()):
        msg = f"This export is damaged: it promises {promised} and holds {found}. Nothing was imported."
        raise ExportUnusable(msg)
    return found["tasks"]


async def take_in(queue: Queue, file: BinaryIO, advance: Advance = lambda _: None) -> Report:
    """Put everything of an export into a store. Making it again changes nothing."""
    report = Report()
    batch = Piece([], [], [])
    for number, line in enumerate(_whole_lines(file), start=1):
        read = _read(line, number)
        batch.tasks.extend([read.task] if read.task else [])
        batch.stones.extend([read.stone] if read.stone else [])
        batch.reservations.extend([read.reservation] if read.reservation else [])
        report.damaged += [read.line.damaged] if read.line.damaged else []
        if len(batch.tasks) + len(batch.stones) + len(batch.reservations) >= BATCH:
            await put(queue, batch, report)
            advance(len(batch.tasks))
            batch = Piece([], [], [])
    await put(queue, batch, report)
    advance(len(batch.tasks))
    return report


def _read(text: bytes, number: int) -> Read:
    try:
        line = _lines.decode(text)
        if (line.tenure_export or 0) > FILE_FORMAT:
            msg = f"Line {number} was written by a newer Tenure. Upgrade this installation."
            raise ExportUnusable(msg)
        return Read(
            line,
            decode(line.task) if line.task else None,
            decode(line.stone) if line.stone else None,
            read_reservation(bytes(line.reservation), "?") if line.reservation else None,
        )
    except DamagedRecord as damage:
        msg = f"Line {number} cannot be read ({damage.why})."
        raise ExportUnusable(msg) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        msg = f"Line {number} cannot be read ({error})."
        raise ExportUnusable(msg) from None


def refuse_same(source: Queue, target: Queue) -> None:
    """A store cannot be moved into itself."""
    same = source.url == target.url or source.store is target.store
    here, there = getattr(source.store, "path", None), getattr(target.store, "path", None)
    if same or (here is not None and there is not None and here.resolve() == there.resolve()):
        one, other = without_password(source.url), without_password(target.url)
        msg = f"{one} and {other} are the same store. Choose another one to copy to."
        raise InvalidInput(msg)


async def total(queue: Queue) -> int:
    """How many tasks there are."""
    return sum((await queue.counts()).values())
