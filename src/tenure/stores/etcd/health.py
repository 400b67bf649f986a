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
    if status.errors:
        told["alarms"] = ", ".join(status.errors)
    return told
