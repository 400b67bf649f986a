"""Where a service is, and who asks: found by botocore, as every other AWS tool finds it.

Roles, profiles, single sign-on, environment variables and the metadata service of a machine all
work, because this only asks botocore. It may read files or wait for a network, so it is asked on a thread.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, NamedTuple

import botocore.exceptions
import botocore.session

from tenure.errors import StoreUnavailable, StoreUnusable

FALLBACK_REGION = "us-east-1"
"""What servers of other makers are told when nobody chose a region; they do not mind."""
REFRESH_AHEAD, REFRESH_NOW = 15 * 60, 10 * 60
"""Seconds before their end at which credentials are renewed in the background, and at which requests wait for it."""


class Place(NamedTuple):
    """A service's address and region."""

    endpoint: str
    region: str


class Keys(NamedTuple):
    """What a signature is made with."""

    access_key: str
    secret_key: str
    token: str | None


class Access:
    """The way to one service. One object serves the event loops of any number of threads."""

    def __init__(
        self, service: str, *, region: str | None = None, endpoint: str | None = None, profile: str | None = None
    ) -> None:
        self.service = service
        self._region, self._endpoint, self._profile = region, endpoint, profile
        self._lock = threading.Lock()
        self._session: Any = None
        self._place: Place | None = None
        self._credentials: Any = None
        self._keys: Keys | None = None
        self._refreshing: asyncio.Future[Keys] | None = None

    async def place(self) -> Place:
        """The address of the service; looked up once."""
        return await asyncio.to_thread(self._find_place) if self._place is None else self._place

    async def keys(self) -> Keys:
        """Credentials that are valid now. Requests wait for new ones only when the old ones end soon."""
        if self._keys is None:
            return await asyncio.to_thread(self._read_keys)
        if self._ends_within(REFRESH_NOW):
            return await asyncio.to_thread(self._read_keys)
        if self._ends_within(REFRESH_AHEAD) and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.get_running_loop().run_in_executor(None, self._read_keys)
            self._refreshing.add_done_callback(_forget_failure)
        return self._keys

    def _ends_within(self, seconds: float) -> bool:
        needs_refresh = getattr(self._credentials, "refresh_needed", None)
        return needs_refresh is not None and bool(needs_refresh(seconds))

    def _find_place(self) -> Place:
        with self._lock, _explained():
            self._place = place = self._place or self._look_up()
            return place

    def _look_up(self) -> Place:
        session = self._open_session()
        region = self._region or session.get_config_variable("region")
        if self._endpoint is not None:
            return Place(self._endpoint.rstrip("/"), region or FALLBACK_REGION)
        client = session.create_client(self.service, region_name=region)
        return Place(client.meta.endpoint_url.rstrip("/"), client.meta.region_name)

    def _read_keys(self) -> Keys:
        with self._lock, _explained():
            if self._credentials is None:
                self._credentials = self._open_session().get_credentials()
            if self._credentials is None:
                msg = (
                    f"No AWS credentials for {self.service} were found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                    "name a profile with AWS_PROFILE, or give the machine a role."
                )
                raise StoreUnusable(msg)
            frozen = self._credentials.get_frozen_credentials()
            self._keys = Keys(frozen.access_key, frozen.secret_key, frozen.token)
            return self._keys

    def _open_session(self) -> Any:
        if self._session is None:
            self._session = botocore.session.Session(profile=self._profile)
        return self._session


class _explained:  # noqa: N801 - reads as a word of a `with` statement
    """Botocore's errors in words of this library."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, botocore.exceptions.NoRegionError):
            msg = "No AWS region was chosen. Add ?region=eu-central-1 to the address, or set AWS_REGION."
            raise StoreUnusable(msg) from None
        waits = (
            botocore.exceptions.HTTPClientError,
            botocore.exceptions.MetadataRetrievalError,
            botocore.exceptions.CredentialRetrievalError,
        )
        if isinstance(error, waits):
            msg = f"AWS credentials cannot be had at the moment: {error}"
            raise StoreUnavailable(msg) from None
        if isinstance(error, botocore.exceptions.BotoCoreError | botocore.exceptions.ClientError):
            msg = f"AWS refuses or misses something: {error}"
            raise StoreUnusable(msg) from None


def _forget_failure(refreshing: asyncio.Future[Keys]) -> None:
    """A renewal in the background that fails is tried again by a later request."""
    if not refreshing.cancelled():
        refreshing.exception()
