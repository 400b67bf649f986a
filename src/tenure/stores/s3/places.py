"""Where a task is: its id usually leads there, and if not, a listing does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tenure.errors import DamagedRecord
from tenure.stores.s3.ids import Ids
from tenure.stores.s3.mirror import Mirror
from tenure.stores.s3.names import born, is_pack, may_hold, segment_name, shard_for, tail_of
from tenure.stores.s3.packs import Packs
from tenure.stores.s3.segments import Entry, Segment
from tenure.stores.s3.shelves import Shelves, in_parallel


class Places:
    """Finds tasks by id."""

    def __init__(self, mirror: Mirror, shelves: Shelves, packs: Packs, ids: Ids, shards: Callable[[], int]) -> None:
        self._mirror, self._shelves, self._packs, self._ids, self._shards = mirror, shelves, packs, ids, shards

    async def find_readable(self, ids: Iterable[str]) -> dict[str, tuple[str, Entry]]:
        """The same; a task that is there, and that nobody can read, is an error."""
        wanted = list(ids)
        found = await self.find(wanted)
        for task_id in wanted:
            if task_id not in found and (why := await self._damage_of(task_id)) is not None:
                raise DamagedRecord(task_id, why)
        return found

    async def _damage_of(self, task_id: str) -> str | None:
        damage = self._shelves.writer.damage
        if not damage.names():
            return None
        if (why := damage.why(task_id)) is not None:
            return why
        if tail_of(task_id) is None:
            place = (await self._ids.segments([task_id])).get(task_id)
            return damage.why(place) if place else None
        return next((damage.why(name) for name in damage.names() if may_hold(name, task_id)), None)

    async def find(self, ids: Iterable[str]) -> dict[str, tuple[str, Entry]]:
        """The object and the entry of each task that there is, as they are now."""
        found: dict[str, tuple[str, Entry]] = {}
        wanted = list(dict.fromkeys(ids))

        def missing() -> list[str]:
            return [task_id for task_id in wanted if task_id not in found]

        await self._look({each: place for each in missing() if (place := self._mirror.place(each))}, found)
        await self._look({each: place for each in missing() if (place := self._derived(each))}, found)
        chosen = [each for each in missing() if tail_of(each) is None]
        await self._look(await self._ids.segments(chosen), found)
        # A chosen id without a record was never submitted here.
        if rest := [each for each in missing() if tail_of(each) is not None or self._ids.has(each)]:
            await self._search(rest, found)
        return found

    def _derived(self, task_id: str) -> str | None:
        """Where a lone task of no special priority that was due at once stands."""
        tail = tail_of(task_id)
        if tail is None:
            return None
        moment = born(task_id)
        return segment_name(shard_for(tail, self._shards()), 0, moment, tail, moment)

    async def _look(self, names: dict[str, str], found: dict[str, tuple[str, Entry]]) -> None:
        seen: set[tuple[str, str]] = set()
        while names:
            seen |= set(names.items())
            objects = sorted(set(names.values()))
            read = dict(zip(objects, await in_parallel(self._read, objects), strict=True))
            further = {}
            for task_id, name in names.items():
                held = read[name]
                if held is None:
                    continue
                if (entry := held.entry(task_id)) is not None:
                    found[task_id] = name, entry
                elif task_id in held.moved and task_id not in held.arriving:
                    further[task_id] = held.moved[task_id]
            # Marks that lead in a circle lead nowhere.
            names = {task_id: name for task_id, name in further.items() if (task_id, name) not in seen}

    async def _read(self, name: str) -> Segment | None:
        return await (self._packs.read(name) if is_pack(name) else self._shelves.read_one(name))

    async def _search(self, missing: list[str], found: dict[str, tuple[str, Entry]]) -> None:
        """Look where the names say that a task may be, then everywhere, then in the packs of its time."""
        listed = await self._shelves.all_names()
        likely = [each for each in listed if any(may_hold(each.name, task_id) for task_id in missing)]
        for names in (likely, listed):
            self._take(await self._shelves.read(names), missing, found)
            if all(task_id in found for task_id in missing):
                return
        still = [task_id for task_id in missing if task_id not in found]
        for known in reversed(await self._packs.all()):
            if any(known.summary.may_hold(task_id) for task_id in still):
                pack = await self._packs.read(known.name)
                self._take([pack] if pack else [], still, found)
        # Between the listing and the packs a task may have been given another life.
        gone = {task_id: name for task_id in still if task_id not in found and (name := self._mirror.place(task_id))}
        await self._look(gone, found)

    def _take(self, segments: Sequence[Segment], ids: list[str], found: dict[str, tuple[str, Entry]]) -> None:
        for segment in segments:
            for task_id in ids:
                if task_id not in found and (entry := segment.entry(task_id)) is not None:
                    found[task_id] = segment.name, entry
