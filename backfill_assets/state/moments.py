"""Moments to go back to: which state of the lakehouse a text names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets.state.positions import view_at, view_of, view_with
from backfill_assets.state.view import View

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOST_DIGITS = 18
BEFORE = "^"
"""After a publication: the state just before it, as in git."""


@dataclass(frozen=True)
class Moment:
    """A state of the lakehouse, and the words for it."""

    view: View
    text: str


def parse_time(text: str) -> datetime | None:
    """``text`` as a moment in UTC; None if it is none, and for the beginning of an id, ``20170601t1200``.

    A time without a fraction is the end of its second: as such it is shown when a publication was closed.
    """
    if not _DATE.match(text):
        return None
    try:
        at = datetime.fromisoformat(text)
        at = at if "." in text or "," in text else at.replace(microsecond=999_999)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # in UTC, the year can be one that Python has not
        return None


def is_version(text: str) -> bool:
    """Whether ``text`` can be the number of a Delta version: ``²`` is a digit and none, and so are a thousand."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def find_moment(storage: Storage, text: str, table: str) -> Moment:
    """The state that ``text`` names: a publication, a Delta version of ``table``, or a time.

    ``PUBLICATION^`` is the state just before it was closed. Raises :class:`InvalidRequest` for a publication or a
    version that there is none of, and for a time before the first publication.
    """
    if text.endswith(BEFORE):
        return moment_before(storage, text.removesuffix(BEFORE))
    if is_version(text):
        return Moment(view_with(storage, table, int(text)), f"version {text} of {table}")
    if (at := parse_time(text)) is not None:
        return Moment(view_at(storage, at), f"{at:%Y-%m-%d %H:%M:%S} UTC")
    return Moment(view_of(storage, text), f"publication {text}")


def moment_before(storage: Storage, publication: str) -> Moment:
    """The state just before ``publication`` was closed; raises :class:`InvalidRequest` for the first one."""
    closed = view_of(storage, publication).sequence
    found = PublicationLog(storage).files().rows([], until=closed - 1, event="closed").column("sequence").to_pylist()
    if not found:
        raise InvalidRequest(
            f"Nothing was published before {publication}.", hint="backfill history lists the publications."
        )
    return Moment(view_closed_by(storage, max(found)), f"before publication {publication}")


def view_closed_by(storage: Storage, sequence: int) -> View:
    """All tables as the entry ``sequence`` of the publication log left them, which closed a publication."""
    rows = PublicationLog(storage).files().rows(["publication"], sequence=sequence, event="closed")
    return view_of(storage, rows.column("publication").to_pylist()[0])
