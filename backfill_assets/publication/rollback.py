"""Rollback: publish the files that the days had before a publication, by the same protocol as any publication."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import (
    CurrentVersion,
    DayChange,
    Expected,
    InputRead,
    Notice,
    Position,
    Prepared,
    Provenance,
    Publication,
    Switch,
    TableChange,
)
from backfill_assets.publication.pin import States
from backfill_assets.publication.publisher import Conflict, Published, Publisher

_MOST_REASONS = 3
_UNDONE, _BACK = "Undone: ", "In force again: "
_MOVED = "Roll back the later publications first (backfill history shows them), or rebuild the days."
_GONE = "Bring the files back from a copy, or rebuild the days with the version of the code that they had then."
FindPrepared = Callable[[str], tuple[Prepared, datetime] | None]


def roll_back(
    publisher: Publisher,
    publication: str,
    *,
    id: str,
    provenance: Provenance | None = None,
    inputs: tuple[InputRead, ...] = (),
) -> Published:
    """Undo ``publication``: its days get the files and the content they had before, in all its tables at once.

    ``inputs`` is what was looked at to decide that it may be undone; if that has moved, it is refused.

    A rollback is a publication and can be rolled back itself. Raises :class:`InvalidRequest` for an unknown or
    aborted publication and for one that is undone, :class:`PublicationRefused` when a day was published again since,
    when the files are no longer there, or when the rollback window is over.
    """
    publisher.recover()
    prepared = undoable(publisher, publication)
    require_in_force(publisher, prepared)
    request = _request(
        publisher,
        prepared,
        id,
        provenance or Provenance(reason=f"rollback of {publication}"),
    )
    result = publisher.publish(request.model_copy(update={"inputs": inputs}))
    if isinstance(result, Conflict):
        raise _refusal(publication, result)
    return result


def require_in_force(publisher: Publisher, prepared: Prepared) -> None:
    """Raise :class:`InvalidRequest` if ``prepared`` is undone: with what did it, when, and how it is brought back."""
    publication = prepared.publication.id
    if undone := _undone_by(publisher, prepared):
        by, at = undone
        raise InvalidRequest(
            f"{publication} is undone already: {by} did it on {at:%Y-%m-%d %H:%M:%S} UTC.",
            hint=f"To bring it back: backfill rollback {by}",
        )


def _undone_by(publisher: Publisher, prepared: Prepared) -> tuple[str, datetime] | None:
    """The publication that put back what was before ``prepared``, as far as that is in main; None if it is not."""
    head, find = publisher.log.head(), cache(publisher.log.find_prepared)
    undone = prepared.publication
    states = publisher.log.day_states(head, set(undone.writes))
    written = (TableDay(change.table, day.day) for change in undone.tables for day in change.days)
    found = {
        _before_compactions(find, each.table, each.day, states[each].publication) for each in written if each in states
    }
    current = head.state.current
    found |= {current[step].publication for step in undone.switches if step in current}
    for publication in sorted(found - {undone.id, ""}):
        entry = find(publication)
        if entry is not None and entry[0].publication.provenance.undoes == undone.id:
            return publication, entry[1]
    return None


def _before_compactions(find: FindPrepared, table: str, day: date, publication: str) -> str:
    while publication and (entry := find(publication)) is not None and entry[0].publication.kind == "compact":
        publication = entry[0].before[table][day].publication
    return publication


def require_in_place(publisher: Publisher, prepared: Prepared) -> None:
    """Raise :class:`PublicationRefused` if a rollback of ``prepared`` would be refused now: before anyone is asked."""
    request = _request(publisher, prepared, "", Provenance())
    if moved := publisher.foresee(request):
        raise _refusal(prepared.publication.id, moved)


def _refusal(publication: str, moved: Conflict) -> PublicationRefused:
    named, more = moved.reasons[:_MOST_REASONS], len(moved.reasons) - _MOST_REASONS
    others = f"; and {more} more" if more > 0 else ""
    return PublicationRefused(
        f"{publication} cannot be rolled back as it is: {'; '.join(named)}{others}.",
        hint=_GONE if moved.gone else _MOVED,
    )


@dataclass(frozen=True)
class Newest:
    """The last publication of a campaign, and whether it took away what the campaign had brought."""

    publication: str
    undoes: bool
    at: datetime
    cut_over: Publication
    """What the campaign brought: this publication, or the one that it has undone or brought back."""

    @property
    def restores(self) -> bool:
        return not self.undoes and self.publication != self.cut_over.id


def newest(publisher: Publisher, campaign: str) -> Newest | None:
    """What the log says of ``campaign``; None when it has published nothing."""
    publication = publisher.log.newest_closed(campaign)
    found = publisher.log.find_prepared(publication) if publication else None
    if publication is None or found is None:
        return None
    return Newest(publication, _undoes(publisher, publication), found[1], _cut_over(publisher, found[0]))


def _cut_over(publisher: Publisher, prepared: Prepared) -> Publication:
    undoes = prepared.publication.provenance.undoes
    undone = publisher.log.find_prepared(undoes) if undoes else None
    return prepared.publication if undone is None else _cut_over(publisher, undone[0])


def _undoes(publisher: Publisher, publication: str) -> bool:
    """True if ``publication`` undid its campaign. An undo of an undo restores it."""
    entry = publisher.log.find_prepared(publication)
    undone = entry[0].publication.provenance.undoes if entry else ""
    return bool(undone) and not _undoes(publisher, undone)


def restores(publisher: Publisher, prepared: Prepared) -> bool:
    """True if undoing ``prepared`` brings its campaign back, for it has undone it."""
    return _undoes(publisher, prepared.publication.id)


def undoable(publisher: Publisher, publication: str) -> Prepared:
    """The publication with its before-images; raises like :func:`roll_back` when it cannot be undone."""
    entry = publisher.log.find_prepared(publication)
    if entry is None:
        raise InvalidRequest(
            f"There is no publication {publication!r}.",
            hint="backfill history lists the publications.",
        )
    require_done(publisher, publication)
    prepared, at = entry
    age, window = publisher.now() - at, max(prepared.window_days, publisher.retention_days)
    if age > timedelta(days=window):
        raise PublicationRefused(
            f"The rollback window of {publication} is over: it was published {age.days} days ago,"
            f" and files are kept for {window} days.",
            hint="Rebuild the days with the version of the code that they had then.",
        )
    return prepared


def require_done(publisher: Publisher, publication: str) -> None:
    """Raise :class:`InvalidRequest` for a publication that was aborted, and for one that could not be finished yet."""
    head = publisher.log.head()
    if publication in head.state.open:
        raise InvalidRequest(
            f"The publication {publication} is not finished: there is nothing to roll back yet.",
            hint=f"If what keeps it from its end stays, give it up: backfill abort {publication}",
        )
    if publisher.log.outcome(head, publication) != "done":
        raise InvalidRequest(f"The publication {publication} was aborted: there is nothing to roll back.")


def _request(publisher: Publisher, prepared: Prepared, id: str, provenance: Provenance) -> Publication:
    tables = tuple(_undo_table(publisher, prepared, change) for change in prepared.publication.tables)
    request = Publication(id=id, kind="rollback", tables=tables, provenance=provenance)
    switches = undo_switches(prepared.publication, publisher.log.head().state.current)
    return undoing(prepared, request.model_copy(update={"switches": switches}))


def undo_switches(publication: Publication, current: Mapping[str, CurrentVersion]) -> dict[str, Switch]:
    """The switches that put back the versions from before ``publication``. Pure.

    What made its version current is taken as of now: a later switch that was undone has put it back.
    """
    return {
        step: Switch(
            version=switch.former,
            former=switch.version,
            former_by=current[step].publication if step in current else "",
        )
        for step, switch in publication.switches.items()
    }


def undoing(prepared: Prepared, request: Publication) -> Publication:
    """``request`` as one that undoes ``prepared``; the undo of a campaign comes with a notice."""
    undone = prepared.publication
    made = request.provenance.model_copy(update={"campaign": undone.provenance.campaign, "undoes": undone.id})
    notice = _notice(undone, request) if undone.provenance.campaign else None
    return request.model_copy(update={"provenance": made, "notice": notice})


def _notice(undone: Publication, request: Publication) -> Notice:
    days = {change.table: len(change.days) for change in request.tables}
    earlier = undone.notice
    return Notice(
        title=_title(earlier.title if earlier else undone.provenance.campaign),
        lines=tuple(
            f"{table}: its days or periods ({count:,}) hold again what they held before."
            for table, count in days.items()
        ),
        reports=earlier.reports if earlier else tuple(days),
        approved_by=request.provenance.launched_by,
        undo=f"backfill rollback {request.id}",
    )


def _title(undone: str) -> str:
    """What undid a campaign is undone by bringing it back, and the other way round."""
    if undone.startswith(_UNDONE):
        return _BACK + undone.removeprefix(_UNDONE)
    return _UNDONE + undone.removeprefix(_BACK)


def _undo_table(publisher: Publisher, prepared: Prepared, change: TableChange) -> TableChange:
    """The before-image as adds and the publication's own result as expected; source positions go back as well.

    The last publication is taken as of now: a later one that was itself rolled back has left our result in place.
    """
    before, target = prepared.before[change.table], prepared.target(change.table)
    states = publisher.log.day_states(publisher.log.head(), {change.table})
    find = cache(publisher.log.find_prepared)
    days = tuple(
        DayChange(
            day=day.day,
            adds=before[day.day].files,
            content=before[day.day].content,
            expected=Expected(
                files=tuple(sorted(_files_after_compaction(find, change.table, day.day, states, target[day.day]))),
                publication=states[TableDay(change.table, day.day)].publication,
            ),
        )
        for day in change.days
    )
    positions = tuple(Position(id=p.id, before=p.after, after=p.before or 0) for p in change.positions)
    return TableChange(
        table=change.table,
        table_schema=main_schema(publisher, change.table),
        days=days,
        positions=positions,
    )


def _files_after_compaction(
    find: FindPrepared, table: str, day: date, states: States, ours: Collection[str]
) -> Collection[str]:
    """The files of a day now, if nothing but compaction has happened to ``ours``; else ``ours``, which refuses it.

    Compaction must leave every rollback possible that the rollback window promises.
    """
    state = states[TableDay(table, day)]
    if state.physical == fingerprints.physical(ours):
        return ours
    newest: Collection[str] = ()
    compaction = _last_compaction(find, table, day, state.publication)
    while compaction is not None:
        newest = newest or compaction.target(table)[day]
        before = compaction.before[table][day]
        if {file.path for file in before.files} == set(ours):
            return newest
        compaction = _last_compaction(find, table, day, before.publication)
    return ours


def _last_compaction(find: FindPrepared, table: str, day: date, publication: str) -> Prepared | None:
    """The compaction that made the day's files: ``publication``, or an earlier one if what came after it was undone."""
    while publication and (entry := find(publication)) is not None:
        made = entry[0].publication
        if made.kind == "compact":
            return entry[0]
        undone = find(made.provenance.undoes) if made.kind == "rollback" else None
        if undone is None:
            return None
        publication = undone[0].before[table][day].publication
    return None


def main_schema(publisher: Publisher, table: str) -> str:
    """Main's schema of today: columns gained since stay, and read as null in the older files."""
    main = MainTable.open(publisher.storage, table)
    if main is None:
        raise PublicationRefused(f"The table {table} does not exist any more.")
    return str(main.handle.schema().to_json())
