"""Stages days of one or two tables, of its own rows or of those that it reads, and publishes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from backfill_assets.lakehouse.records import InputRead, Notice, Publication, Switch, TableChange
from backfill_assets.publish.pinned import Pin
from backfill_assets.publish.publisher import Conflict, Publisher
from backfill_assets_tests.simulator.staging import DAYS, Names, change, rows_at, stage
from backfill_assets_tests.simulator.world import RAW, Life

ATTEMPTS = 3
Days = Mapping[str, Sequence[date]]


def publish(life: Life) -> None:
    """Of its own rows, or of rows that it reads, which may have to be just those until the end."""
    tables = life.draw.choice([["fact"], ["report"], ["fact", "report"], ["fact", "report"]])
    reading = life.draw.choice(["", "", *RAW])
    publish_days(life, {table: some_days(life) for table in tables}, reading, exact=life.draw.random() < 0.3)


def switch(life: Life) -> None:
    """Another version of the fact becomes current, with days of one or two tables, or for new days alone."""
    tables: list[str] = life.draw.choice([[], ["fact"], ["fact", "report"]])
    publish_days(life, {table: some_days(life) for table in tables}, switches="fact")


def publish_days(
    life: Life, days: Days, reading: str = "", *, exact: bool = False, transaction: str = "", switches: str = ""
) -> None:
    """Days that moved meanwhile, and only they, are staged again; with inputs that moved, all."""
    publisher, again = life.publisher(), days
    staged: dict[str, TableChange] = {}
    rows: dict[str, dict[date, Names]] = {table: {} for table in days}
    for _ in range(ATTEMPTS):
        id = life.new_id("p")
        inputs = {reading: sorted({day for each in days.values() for day in each})} if reading else {}
        switched = _switch(publisher, switches, id)
        pin = publisher.pin(again, inputs, exact=inputs if exact else ())
        life.reached("pinned")
        read = _read(life, pin.inputs.get(reading))
        for table, moved in again.items():
            new = {day: read.get(day, (f"{id}/{table}/{day}",) * (len(moved) % 2 + 1)) for day in moved}
            rows[table].update(new)
            staged[table] = _restaged(life, table, id, new, pin, staged.get(table))
        life.reached("staged")
        publication = Publication(
            id=id,
            kind="replace",
            tables=tuple(staged.values()),
            inputs=tuple(pin.inputs.values()),
            notice=Notice(title=id),
            transaction=transaction,
            switches=switched,
        )
        looked_at = {table: each.version for table, each in pin.inputs.items() if each.version is not None}
        life.world.asks(life, publication, rows, {reading: read} if reading else {}, looked_at)
        result = publisher.publish(publication)
        life.world.told(life, id, result)
        if not isinstance(result, Conflict):
            return
        again = days if reading else {table: sorted(moved) for table, moved in sorted(result.days.items())}


def _switch(publisher: Publisher, step: str, version: str) -> dict[str, Switch]:
    """To ``version``, from the one that is current now; of no step, nothing."""
    now = publisher.log.head().state.current.get(step) if step else None
    former, by = (now.version, now.publication) if now else ("", "")
    return {step: Switch(version=version, former=former, former_by=by)} if step else {}


def some_days(life: Life) -> list[date]:
    """One day, or two that follow each other."""
    first = life.draw.randrange(len(DAYS))
    return sorted({DAYS[first], DAYS[(first + life.draw.choice([0, 1])) % len(DAYS)]})


def _read(life: Life, read: InputRead | None) -> dict[date, Names]:
    """The rows of an input, at the version that was pinned."""
    if read is None or read.version is None:
        return dict.fromkeys(read.days, ()) if read else {}
    found = rows_at(life.storage, read.table, read.version)
    return {day: tuple(found[day].elements()) if day in found else () for day in read.days}


def _restaged(
    life: Life, table: str, id: str, rows: Mapping[date, Names], pin: Pin, earlier: TableChange | None
) -> TableChange:
    """The new days together with those that were staged before and have not moved."""
    new = change(stage(life.storage, table, id, rows, life.world.columns[table]), rows, pin)
    kept = tuple(day for day in earlier.days if day.day not in rows) if earlier else ()
    return new.model_copy(update={"days": (*new.days, *kept)})
