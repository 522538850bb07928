"""The dead man's switch: a service outside expects calls, made while every sensor succeeds."""

from __future__ import annotations

import urllib.error
import urllib.request
from datetime import datetime
from http.client import HTTPException
from urllib.parse import urlsplit

from backfill_assets.errors import NotDelivered
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.storage import Storage

_TIMEOUT_SECONDS = 5.0


def beat(storage: Storage, address: str, now: datetime) -> bool:
    """Calls ``address`` at most once a minute across processes; False if called.

    Raises :class:`NotDelivered` with the host alone: an address may be secret.
    """
    beats = Documents(storage, "_sensors/heartbeat", datetime)
    minute = f"{now:%Y%m%dT%H%M}"
    if not beats.create(minute, now):
        return False
    for older in beats.files():
        if older < minute:
            beats.delete(older)
    _call(address)
    return True


def _call(address: str) -> None:
    host = urlsplit(address).netloc.rpartition("@")[2]
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - the setting is http
            answer.read(1)
    except urllib.error.HTTPError as error:
        error.close()
        raise NotDelivered(f"{host} answered the heartbeat with {error.code}") from None
    except (OSError, HTTPException, ValueError) as error:  # their text may repeat the address
        raise NotDelivered(f"{host} did not answer the heartbeat ({type(error).__name__})") from None
