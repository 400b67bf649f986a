"""What an operator may want to know about the cluster."""

from __future__ import annotations

from tenure.stores.etcd.database import Database
from tenure.stores.etcd.layout import TIME
from tenure.stores.etcd.requests import get
from tenure.stores.etcd.wire import message


async def about(db: Database) -> dict[str, str]:
    """Version, members, size, alarms and whose time it is."""
    client = db.client
    status = await client.ask("Maintenance/Status", message("StatusRequest")())
    time, office = await db.read([get(db.layout.news(TIME)), get(db.layout.key(b"timekeeper"))])
    told = {
        "store": f"etcd {status.version}",
        "members": client.address.shown,
        "prefix": client.address.prefix,
        "leader": f"{status.leader:x}" if status.leader else "none",
        "revision": str(status.header.revision),
        "size": f"{status.dbSizeInUse / 1e6:.1f} MB used of {status.dbSize / 1e6:.1f} MB",
        "time": "kept by an elected process" if office else "nobody keeps it at present",
    }
    if time:
        told["last stamp"] = time[0].value.decode()
    if fault := known_fault(status.version):
        told["warning"] = fault
    if status.errors:
        told["alarms"] = ", ".join(status.errors)
    return told


def known_fault(version: str) -> str | None:
    """What is wrong with a version of etcd, if its own project warns of it.

    >>> known_fault("3.5.1"), known_fault("3.5.21"), known_fault("3.4.23")
    ('etcd 3.5.0 to 3.5.5 may lose data when killed and fall over on a cancelled read: upgrade it', None, None)
    """
    major, minor, patch = (int(part) for part in (*version.partition("-")[0].split("."), "0", "0")[:3])
    if (major, minor) == (3, 5) and patch < 6:
        return "etcd 3.5.0 to 3.5.5 may lose data when killed and fall over on a cancelled read: upgrade it"
    if (major, minor, patch) < (3, 4, 22):
        return "etcd before 3.4.22 is not recommended by its own project: upgrade it"
    return None
