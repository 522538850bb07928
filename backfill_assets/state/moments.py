"""Moments to go back to: which state of the lakehouse a text names."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow.compute as pc

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.delta_log import newest_version
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.files import equal
from backfill_assets.publish.log import PublicationLog
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
        return Moment(_view_with(storage, table, int(text)), f"version {text} of {table}")
    if (at := parse_time(text)) is not None:
        return Moment(_view_at(storage, at), f"{at:%Y-%m-%d %H:%M:%S} UTC")
    return Moment(View.closed(storage, text), f"publication {text}")


def moment_before(storage: Storage, publication: str) -> Moment:
    """The state just before ``publication`` was closed; raises :class:`InvalidRequest` for the first one."""
    closed = View.closed(storage, publication).sequence
    found = PublicationLog(storage).files().rows([], until=closed - 1, event="closed").column("sequence").to_pylist()
    if not found:
        raise InvalidRequest(
            f"Nothing was published before {publication}.", hint="backfill history lists the publications."
        )
    return Moment(view_closed_by(storage, max(found)), f"before publication {publication}")


def view_closed_by(storage: Storage, sequence: int) -> View:
    """All tables as the entry ``sequence`` of the publication log left them, which closed a publication."""
    rows = PublicationLog(storage).files().rows(["publication"], sequence=sequence, event="closed")
    return View.closed(storage, rows.column("publication").to_pylist()[0])


def _view_at(storage: Storage, at: datetime) -> View:
    """All tables as of the last publication that was closed by ``at``; raises :class:`InvalidRequest` without one."""
    for rows in PublicationLog(storage).files().newest_first(["event", "at", "sequence", "detail"]):
        closed = equal(rows, event="closed")
        found = closed.filter(pc.less_equal(closed.column("at"), at)).to_pylist()
        if found:
            return View(storage, found[-1]["sequence"], json.loads(found[-1]["detail"]))
    raise InvalidRequest(
        f"Nothing was published by {at:%Y-%m-%d %H:%M:%S} UTC.", hint="backfill history lists the publications."
    )


def _view_with(storage: Storage, table: str, version: int) -> View:
    """All tables as of the publication that ``version`` of ``table`` came from.

    Raises :class:`InvalidRequest` for a version that there is none of, and for one without a publication.
    """
    newest = newest_version(storage, table)
    if newest is None or version > newest:
        has = "nothing was published to it" if newest is None else f"its newest version is {newest}"
        raise InvalidRequest(f"{table} has no version {version}: {has}.", hint="backfill history lists the versions.")
    columns = ["sequence", "publication", "table_version"]
    brought = PublicationLog(storage).files().rows(columns, event="published", table=table).to_pylist()
    rows = [row for row in brought if row["table_version"] <= version]
    if not rows:
        raise InvalidRequest(
            f"Nothing was published to {table} by version {version}.", hint="backfill history lists the versions."
        )
    found = View.closed(storage, rows[-1]["publication"])
    return View(storage, rows[-1]["sequence"], {**found.versions, table: version})
