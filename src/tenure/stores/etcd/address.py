"""Addresses of etcd stores."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from tenure.errors import InvalidURL
from tenure.stores.options import read_options, seconds, switch, without_password

DEFAULT_PORT = 2379
DEFAULT_PREFIX = "tenure"
OPTIONS = ("tls", "ca", "cert", "key", "timeout")


class Address(NamedTuple):
    """A store's address, taken apart."""

    endpoints: tuple[str, ...]
    prefix: str = DEFAULT_PREFIX
    user: str | None = None
    password: str = ""
    tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    timeout: float = 10.0

    @property
    def shown(self) -> str:
        """The endpoints, in words that may stand in any log."""
        return ", ".join(self.endpoints)


def read_address(url: str) -> Address:
    """Take an address apart; a mistake in it is answered with what to write instead.

    >>> read_address("etcd://ada:pw@h1,h2:2380/jobs?tls=true")[:4]
    (('h1:2379', 'h2:2380'), 'jobs', 'ada', 'pw')
    """
    options = read_options(url, known=OPTIONS)
    parts = urlsplit(url, allow_fragments=False)
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    files = {name: _file(name, options[name]) for name in ("ca", "cert", "key") if name in options}
    if ("cert" in files) != ("key" in files):
        msg = "A client certificate has two files: give both cert= and key= in the address of the store."
        raise InvalidURL(msg)
    return Address(
        endpoints=tuple(_endpoint(host, url) for host in hosts.split(",")),
        prefix=unquote(parts.path.strip("/")) or DEFAULT_PREFIX,
        user=unquote(user) or None,
        password=unquote(password),
        tls=switch("tls", options.get("tls", "true" if files else "false")),
        timeout=seconds("timeout", options.get("timeout", "10")),
        **files,
    )


def _endpoint(text: str, url: str) -> str:
    host, separator, port = text.strip().rpartition(":")
    if not separator or text.strip().endswith("]"):
        host, port = text.strip(), str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        msg = f"{without_password(url)!r} names no server as {text!r}. Write etcd://host1:2379,host2:2379/prefix."
        raise InvalidURL(msg)
    return f"{host}:{int(port)}"


def _file(name: str, path: str) -> str:
    if not Path(path).is_file():
        msg = f"{name}={path!r} is no file. Name the PEM file that holds it."
        raise InvalidURL(msg)
    return path
