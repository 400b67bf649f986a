"""The entries of leases that this handle has written, until nothing of them is left."""

from __future__ import annotations

from collections.abc import Collection

AT_ONCE = 20
MOST = 50_000


class Leases:
    """Knows which entry names which claims, so that an entry whose claims have all ended is taken away early.

    What is not known here, because another handle has ended a claim, is tidied up when the entry's time has come.
    """

    def __init__(self) -> None:
        self._entry_of: dict[str, bytes] = {}
        self._left: dict[bytes, int] = {}
        self._over: list[bytes] = []

    def entered(self, entry: bytes, ids: Collection[str]) -> None:
        """An entry was written for these claims."""
        if len(self._entry_of) > MOST:
            self._entry_of.clear()
            self._left.clear()
        self._entry_of |= dict.fromkeys(ids, entry)
        self._left[entry] = len(ids)

    def ended(self, task_id: str) -> None:
        """A claim has ended."""
        entry = self._entry_of.pop(task_id, None)
        if entry is not None and entry in self._left:
            self._left[entry] -= 1
            if not self._left[entry]:
                del self._left[entry]
                self._over.append(entry)

    def over(self) -> list[bytes]:
        """Some entries that name nothing any more, for the next transaction to take away."""
        over, self._over = self._over[:AT_ONCE], self._over[AT_ONCE:]
        return over
