"""Appends what a source gives, offset by offset: a run that lands files, and a stream that facts follow.

There may be several at once: a lease spares work, and what is read twice must not count twice without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from backfill_assets.lakehouse.delta_log import newest_version, read_transactions
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import Position, Publication, TableChange
from backfill_assets.publish.publisher import Conflict, Publisher
from backfill_assets.state.stream_positions import TopicIds, TopicPositions, begun_id, offset_id, parse_positions
from backfill_assets.stream.sources import OffsetRange, TopicOffsets, new_ranges, planned_ranges, start_of
from backfill_assets_tests.simulator.actors.publisher import ATTEMPTS, publish_days
from backfill_assets_tests.simulator.judges.sources import SALES, TOPIC, merged, rows_of_offset
from backfill_assets_tests.simulator.judges.tables import SHARED
from backfill_assets_tests.simulator.staging import DAYS, Names, change, stage
from backfill_assets_tests.simulator.world import RAW, Life

LOOPS = ("raw", "facts")
PARTITIONS = (0, 1)
_RAW, _FACT = RAW[0], "fact"
_ENDLESS = 1_000_000


def append(life: Life) -> None:
    """Take in the next offsets of a source, into one table or two."""
    source, count = life.draw.choice(["topic", "landed:x", "landed:y"]), life.draw.randint(1, 3)
    tables: Sequence[str] = life.draw.choice([("raw",), ("raw_more",), RAW, RAW])
    publisher = life.publisher()
    for _ in range(ATTEMPTS):
        id, changes, rows = life.new_id("a"), list[TableChange](), dict[str, dict[date, Names]]()
        for table in tables:
            main = MainTable.open(life.storage, table)
            before = (main.transaction(source) if main else None) or 0
            rows[table] = merged(rows_of_offset(source, table, o) for o in range(before, before + count))
            timeline = stage(life.storage, table, id, rows[table], life.world.columns[table])
            position = Position(id=source, before=before or None, after=before + count)
            changes.append(change(timeline, rows[table], mode="append", positions=(position,)))
        wanted = Publication(id=id, kind="append", tables=tuple(changes), transaction=SHARED)
        if not _lost(life, publisher, wanted, rows):
            return


def _lost(life: Life, publisher: Publisher, wanted: Publication, rows: dict[str, dict[date, Names]]) -> bool:
    """Publish it; True if others were faster."""
    life.reached("staged")
    life.world.asks(life, wanted, rows)
    result = publisher.publish(wanted)
    life.world.told(life, wanted.id, result)
    return isinstance(result, Conflict)


def stream(life: Life) -> None:
    """Facts follow each micro-batch before the next one is read."""
    for days in _batches(life):
        publish_days(life, {_FACT: days}, _RAW, transaction=SHARED)


def read_on(life: Life) -> None:
    """The loop of raw, beside that of the facts: the schedule says which of them is ahead, and how far."""
    for _ in _batches(life):
        pass


def follow(life: Life) -> None:
    """The loop of the facts: all days that raw has gained, however many batches that were."""
    publisher = life.publisher()
    days = sorted(key.day for key in publisher.log.day_states(publisher.log.head(), {_RAW}))
    if days:
        publish_days(life, {_FACT: days}, _RAW, transaction=SHARED)
    else:
        life.rest()


def _batches(life: Life) -> Iterator[list[date]]:
    """Start where raw ends, and read some micro-batches of both partitions: the days that each has brought."""
    publisher = life.publisher()
    ids = TopicIds("cluster", "topic")
    kept = TopicOffsets(dict.fromkeys(PARTITIONS, 0), dict.fromkeys(PARTITIONS, _ENDLESS), ids)
    start = start_of(_positions_in_log(life), kept, history={})
    if start.new:
        begun = Position(id=begun_id(SALES, TOPIC), before=None, after=1)
        if _append_ranges(life, publisher, (), (begun,)):
            return  # another stream has just begun
    read = dict(start.offsets)
    for number in range(life.draw.randint(1, 3)):
        end = {partition: offset + 1 + (partition + number) % 2 for partition, offset in read.items()}
        if days := _publish_batch(life, publisher, planned_ranges(read, end)):
            yield days
        read = end


def _positions_in_log(life: Life) -> TopicPositions:
    """How far raw has read the topic, by its Delta log: all that a start knows."""
    version = newest_version(life.storage, _RAW)
    found = {} if version is None else parse_positions(SALES, read_transactions(life.storage, _RAW, version))
    return found.get(TOPIC, TopicPositions(TOPIC))


def _publish_batch(life: Life, publisher: Publisher, planned: Sequence[OffsetRange]) -> list[date]:
    """The days that gained rows; what another stream has read meanwhile is left out."""
    ids = {partition: offset_id(SALES, TOPIC, partition) for partition in PARTITIONS}
    for _ in range(ATTEMPTS):
        main = MainTable.open(publisher.storage, _RAW)
        known = {partition: (main.transaction(id) if main else None) or 0 for partition, id in ids.items()}
        ranges = new_ranges(planned, known)
        positions = tuple(
            Position(id=ids[each.partition], before=each.first or None, after=each.end) for each in ranges
        )
        if not ranges or not _append_ranges(life, publisher, ranges, positions):
            return sorted(_rows_of(ranges))
    return []


def _append_ranges(
    life: Life, publisher: Publisher, ranges: Sequence[OffsetRange], positions: tuple[Position, ...]
) -> bool:
    """Publish the rows of ``ranges`` with ``positions``; True if others were faster."""
    id, rows = life.new_id("s"), _rows_of(ranges) or {DAYS[0]: ()}
    timeline = stage(life.storage, _RAW, id, rows, life.world.columns[_RAW])
    appended = change(timeline, rows, mode="append", positions=positions)
    wanted = Publication(id=id, kind="append", tables=(appended,), transaction=SHARED)
    return _lost(life, publisher, wanted, {_RAW: rows})


def _rows_of(ranges: Sequence[OffsetRange]) -> dict[date, Names]:
    offsets = [(each.partition, offset) for each in ranges for offset in range(each.first, each.end)]
    return merged(rows_of_offset(offset_id(SALES, TOPIC, partition), _RAW, offset) for partition, offset in offsets)
