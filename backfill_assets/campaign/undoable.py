"""Whether a publication can be undone: it is done, in force, and within its rollback window."""

from __future__ import annotations

from datetime import datetime, timedelta

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.external.observe import is_look
from backfill_assets.lakehouse.records import Prepared, Publication
from backfill_assets.publish.publisher import Publisher
from backfill_assets.state.reading import unknown_publication


def undoable(publisher: Publisher, publication: str) -> Prepared:
    """The publication with its before-images; raises like :func:`roll_back`."""
    entry = publisher.log.find_prepared(publication)
    if entry is None:
        raise unknown_publication(publisher.storage, publication)
    require_done(publisher, publication)
    prepared, at = entry
    _refuse_handed_over(prepared.publication)
    if is_look(prepared.publication):
        raise InvalidRequest(
            f"{publication} is a look at {', '.join(prepared.publication.writes)}, a table of others: the next one "
            "would find the same again.",
            hint="Undo what was published of it since, or have it put back where it is written: then it is looked at "
            "again.",
        )
    age, window = clock.now() - at, max(prepared.window_days, publisher.retention_days)
    if age > timedelta(days=window):
        raise PublicationRefused(
            f"The rollback window of {publication} is over: it was published {age.days} days ago,"
            f" and files are kept for {window} days.",
            hint="Rebuild the days with the version of the code that they had then.",
        )
    return prepared


def _refuse_handed_over(publication: Publication) -> None:
    """To adopt or release a table replaces no file; each has its own way back."""
    tables = " ".join(sorted(publication.writes))
    if publication.kind == "adopt":
        raise InvalidRequest(
            f"{publication.id} has taken {tables} over: before it, nothing here knew its days.",
            hint=f"To give the table back: backfill adopt --release {tables}",
        )
    if publication.kind == "erase":
        raise InvalidRequest(
            f"{publication.id} has erased rows of a person: they do not come back.",
            hint="If it was the wrong person, the source lands their rows again, in a new file or as events.",
        )
    if publication.kind == "release":
        raise InvalidRequest(
            f"{publication.id} has given {tables} back.",
            hint=f"To take it over again: backfill adopt {tables} LOCATION",
        )


def require_done(publisher: Publisher, publication: str) -> None:
    """Raises :class:`InvalidRequest` for an aborted or open publication."""
    head = publisher.log.head()
    if publication in head.state.open:
        raise InvalidRequest(
            f"The publication {publication} is not finished: there is nothing to roll back yet.",
            hint=f"If what keeps it from its end stays, give it up: backfill maintain --abort {publication}",
        )
    if publisher.log.outcome(head, publication) != "done":
        raise InvalidRequest(f"The publication {publication} was aborted: there is nothing to roll back.")


def require_in_force(publisher: Publisher, prepared: Prepared) -> None:
    """Raises :class:`InvalidRequest` for an undone publication."""
    publication = prepared.publication.id
    if undone := _undone_by(publisher, prepared):
        by, at = undone
        raise InvalidRequest(
            f"{publication} is undone already: {by} did it on {at:%Y-%m-%d %H:%M:%S} UTC.",
            hint=f"To bring it back: backfill rollback {by}",
        )


def _undone_by(publisher: Publisher, prepared: Prepared) -> tuple[str, datetime] | None:
    head, undone = publisher.log.head(), prepared.publication
    states = publisher.log.day_states(head, set(undone.writes))
    written = (TableDay(change.table, day.day) for change in undone.tables for day in change.days)
    origins = (states[key].origin for key in written if key in states)
    found = {origin.put_back_by for origin in origins if origin.undid == undone.id}
    found |= {head.state.current[step].publication for step in undone.switches if step in head.state.current}
    for publication in sorted(found):
        entry = publisher.log.find_prepared(publication)
        if entry is not None and entry[0].publication.provenance.undoes == undone.id:
            return publication, entry[1]
    return None
