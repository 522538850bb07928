"""What actors do, with the real code: publish, append, compact, roll back, reclaim, deliver, try again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import InputRead, Notice, Position, Publication, Switch, TableChange
from backfill_assets.publish.compact import compact
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.pinned import Pin
from backfill_assets.publish.publisher import Conflict, Publisher
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.protocol.actor import Actor
from backfill_assets_tests.protocol.staging import DAYS, change, published_rows, stage
from backfill_assets_tests.protocol.world import World, merged, rows_of_offset
from backfill_assets_tests.simulator.judges.tables import SHARED
from backfill_assets_tests.simulator.model import Wish, Wishes

Work = Callable[[Actor], object]
ATTEMPTS = 3


def publish(
    world: World,
    days: Mapping[str, list[date]],
    reading: str = "",
    exact: bool = False,
    transaction: str = "",
    switches: str = "",
) -> Work:
    """Stage rows of one's own (or derived from ``reading``) for days of one or two tables, and publish them.

    With ``switches``, a version of that step becomes current with them; it is named after the publication.
    """

    def work(actor: Actor) -> None:
        publisher = world.publisher(actor.reached)
        staged: dict[str, TableChange] = {}
        rows: dict[str, dict[date, tuple[str, ...]]] = {table: {} for table in days}
        again: Mapping[str, list[date]] = days
        for _ in range(ATTEMPTS):
            id = world.name("p")
            inputs: dict[str, list[date]] = {reading: sorted(set().union(*days.values()))} if reading else {}
            switch = _switch(publisher, switches, id)
            pin = publisher.pin(again, inputs, exact=inputs if exact else ())
            actor.reached("pinned")
            read = _read(world, pin.inputs.get(reading))
            for table, moved in again.items():
                new = {day: read.get(day, (f"{id}/{table}/{day}",) * (len(moved) % 2 + 1)) for day in moved}
                rows[table].update(new)
                staged[table] = _restaged(world, table, id, new, pin, staged.get(table))
            actor.reached("staged")
            publication = Publication(
                id=id,
                kind="replace",
                tables=tuple(staged.values()),
                inputs=tuple(pin.inputs.values()),
                notice=Notice(title=id),
                transaction=transaction,
                switches=switch,
            )
            world.asked(publication, {reading: read} if reading else {}, rows)
            result = publisher.publish(publication)
            world.told(id, result)
            if not isinstance(result, Conflict):
                return
            again = days if reading else {table: sorted(moved) for table, moved in result.days.items()}

    return refusable(work)


def _switch(publisher: Publisher, step: str, version: str) -> dict[str, Switch]:
    """To ``version``, from the one that is current now; of no step, nothing."""
    now = publisher.log.head().state.current.get(step)
    former, by = (now.version, now.publication) if now else ("", "")
    return {step: Switch(version=version, former=former, former_by=by)} if step else {}


def _read(world: World, read: InputRead | None) -> dict[date, tuple[str, ...]]:
    """The rows of an input, at the version that was pinned."""
    if read is None or read.version is None:
        return dict.fromkeys(read.days, ()) if read else {}
    found = published_rows(world.storage, read.table, read.version)
    return {day: tuple(found[day].elements()) if day in found else () for day in read.days}


def _restaged(
    world: World, table: str, id: str, rows: Mapping[date, tuple[str, ...]], pin: Pin, earlier: TableChange | None
) -> TableChange:
    """The new days together with those that were staged before and have not moved."""
    new = change(stage(world.storage, table, id, rows, world.columns[table]), rows, pin)
    kept = tuple(day for day in earlier.days if day.day not in rows) if earlier else ()
    return new.model_copy(update={"days": (*new.days, *kept)})


def append(world: World, source: str, tables: tuple[str, ...], count: int) -> Work:
    """Take in the next offsets of a source, into one table or two."""

    def work(actor: Actor) -> None:
        publisher = world.publisher(actor.reached)
        for _ in range(ATTEMPTS):
            id = world.name("a")
            changes, rows = [], {}
            for table in tables:
                before = _position(publisher, table, source)
                rows[table] = merged(rows_of_offset(source, table, o) for o in range(before, before + count))
                timeline = stage(world.storage, table, id, rows[table], world.columns[table])
                position = Position(id=source, before=before or None, after=before + count)
                changes.append(change(timeline, rows[table], mode="append", positions=(position,)))
            actor.reached("staged")
            publication = Publication(id=id, kind="append", tables=tuple(changes), transaction=SHARED)
            world.asked(publication, {}, rows)
            result = publisher.publish(publication)
            world.told(id, result)
            if not isinstance(result, Conflict):
                return

    return refusable(work)


def _position(publisher: Publisher, table: str, source: str) -> int:
    main = MainTable.open(publisher.storage, table)
    return (main.transaction(source) if main else None) or 0


def compacting(world: World, table: str) -> Work:
    def work(actor: Actor) -> None:
        id = world.name("c")
        nothing: Mapping[date, tuple[str, ...]] = dict.fromkeys(DAYS, ())
        world.wishes[id] = Wishes("compact", {table: Wish("replace", nothing, {})})
        world.told(id, compact(world.publisher(actor.reached), table, DAYS, id=id, transaction=SHARED))

    return refusable(work)


def rolling_back(world: World, publication: str) -> Work:
    def work(actor: Actor) -> None:
        id = world.name("r")
        undone = world.wishes[publication].tables
        positions = {table: {s: (b, a) for s, (a, b) in wish.positions.items()} for table, wish in undone.items()}
        tables = {table: Wish("replace", {}, {}, positions=positions[table]) for table in undone}
        world.wishes[id] = Wishes("rollback", tables, undoes=publication)
        world.told(id, roll_back(world.publisher(actor.reached), publication, id=id, steps=()))

    return refusable(work)


def trying_again(world: World, publication: Publication) -> Work:
    """The same publication under the same id, by a process that does not know what became of it."""
    return refusable(lambda actor: world.told(publication.id, world.publisher(actor.reached).publish(publication)))


def reclaiming(world: World, table: str) -> Work:
    return refusable(lambda actor: reclaim(world.publisher(actor.reached), table))


def recovering(world: World) -> Work:
    return refusable(lambda actor: world.publisher(actor.reached).recover())


def giving_up(world: World, publication: str) -> Work:
    """A person aborts an open entry, in any state of its tables."""
    return refusable(lambda actor: world.publisher(actor.reached).abort(publication, by="ana"))


def delivering(world: World) -> Work:
    return refusable(lambda actor: deliver(world.publisher(actor.reached), world))


def refusable(work: Work) -> Work:
    """A refusal is an answer: it must leave nothing behind, which the judges see."""

    def guarded(actor: Actor) -> None:
        try:
            work(actor)
        except BackfillError as error:
            actor.refusal = error

    return guarded
