"""The gate of every publication: each day is made of what it brings, or else of what main holds. Pure.

What it brings, and what it read of other days (checked by compare-and-swap), gives the input fingerprint of a day. A
day that main has, of the same inputs and rows, may have other files unless the publication brings one of its inputs. So
may a day of which some rows are computed, and others carried over: it is no more stale than it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import product

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayChange, DayContent, DayState, InputRead, Publication, content_in
from backfill_assets.text import format_count

Reads = Mapping[date, str]


def require_whole(publication: Publication, states: Mapping[TableDay, DayState]) -> None:
    """Raises :class:`PublicationRefused` for other inputs than there will be; ``states`` is main now."""
    torn = list(torn_days(publication, states))
    if torn:
        key, why = torn[0]
        more = f", and {format_count(len(torn) - 1, 'more day')}" if len(torn) > 1 else ""
        what = "The rollback" if publication.kind == "rollback" else publication.id
        raise PublicationRefused(
            f"{what} is refused: {key} {why}{more}. Nothing was published.",
            hint=f"Build the day from what there is now: backfill run {key.table} --days {key.day}",
        )


def torn_days(publication: Publication, states: Mapping[TableDay, DayState]) -> Iterator[tuple[TableDay, str]]:
    brought = _brought_days(publication)
    read = _read_days(publication.inputs)
    for change in publication.tables:
        for day in change.days if change.mode == "replace" else ():
            key = TableDay(change.table, day.day)
            if day.content is None or not day.content.inputs:
                continue  # rows that were taken in, or of another writer: they are made of nothing that is published
            shown = content_in(states, key)
            known = is_as(shown, day.content) or _is_as_stale(states.get(key), day)
            if known and not _made_of_brought(day, brought):
                continue
            if why := _why_torn(day, day.content, brought, read):
                yield key, why


def is_as(shown: DayContent | None, content: DayContent) -> bool:
    same = (content.logical, content.input_fingerprint)
    return shown is not None and (shown.logical, shown.input_fingerprint) == same


def _is_as_stale(shown: DayState | None, day: DayChange) -> bool:
    """A day of which only some rows are computed, and its undo, may be of the inputs that main's other rows have."""
    origins = [each for each in (day.origin, shown.origin if shown else None) if each]
    some = day.only_where or any(each.only_where for each in origins)
    if not some or shown is None or shown.content is None or day.content is None:
        return False
    return shown.content.input_fingerprint == day.content.input_fingerprint


def _made_of_brought(day: DayChange, brought: Mapping[str, Reads]) -> list[str]:
    made_of = (day.made_of or {}).items()
    return [table for table, days in made_of if any(each in days for each in brought.get(table, ()))]


def _why_torn(
    day: DayChange, content: DayContent, brought: Mapping[str, Reads], read: Mapping[str, list[Reads]]
) -> str:
    if day.made_of is None:
        return "does not say what it was made of"
    given = {table: list(_given(table, days, brought, read)) for table, days in day.made_of.items()}
    if unknown := next((table for table, found in given.items() if not found), None):
        return f"was made of days of {unknown} that this publication has not read"
    # A table may have been read twice while days were staged; one of the reads must fit all days of this one.
    for chosen in product(*given.values()):
        if fingerprints.inputs(dict(zip(given, chosen, strict=True))) == content.inputs:
            return ""
    own = _made_of_brought(day, brought)
    where = f"than it brings of {', '.join(own)}" if own else f"than main has of {', '.join(given)}"
    return f"was made of other content {where}"


def _given(
    table: str, days: DayRange, brought: Mapping[str, Reads], read: Mapping[str, list[Reads]]
) -> Iterator[Reads]:
    own = {day: brought[table][day] for day in days if day in brought.get(table, ())}
    rest = [day for day in days if day not in own]
    if not rest:
        yield own
        return
    for known in read.get(table, ()):
        if all(day in known for day in rest):
            yield {**own, **{day: known[day] for day in rest}}


def _brought_days(publication: Publication) -> dict[str, Reads]:
    """Leaves out appends: only main knows what such a day will hold."""
    return {
        change.table: {day.day: day.logical for day in change.days}
        for change in publication.tables
        if change.mode == "replace"
    }


def _read_days(inputs: Iterable[InputRead]) -> dict[str, list[Reads]]:
    found: dict[str, list[Reads]] = {}
    for read in inputs:
        found.setdefault(read.table, []).append(read.days)
    return found
