"""A life of a stream, with the real decisions and positions; its events are made up where Spark would read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from backfill_assets.lakehouse.delta_log import newest_version, read_transactions
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import Position, Publication
from backfill_assets.publish.publisher import Conflict, Publisher
from backfill_assets.state.stream_positions import TopicIds, TopicPositions, begun_id, offset_id, parse_positions
from backfill_assets.stream.sources import OffsetRange, TopicOffsets, new_ranges, planned_ranges, start_of
from backfill_assets_tests.protocol.actor import Actor
from backfill_assets_tests.protocol.deeds import ATTEMPTS, Work, publish, refusable
from backfill_assets_tests.protocol.model import SHARED
from backfill_assets_tests.protocol.staging import DAYS, change, stage
from backfill_assets_tests.protocol.world import SALES, TOPIC, World, merged, rows_of_offset

PARTITIONS = (0, 1)
_RAW, _FACT = "raw", "fact"


def positions_in_log(world: World) -> TopicPositions:
    """How far raw has read the topic, by its Delta log: all that a start knows."""
    version = newest_version(world.storage, _RAW)
    found = {} if version is None else parse_positions(SALES, read_transactions(world.storage, _RAW, version))
    return found.get(TOPIC, TopicPositions(TOPIC))


def stream_life(world: World, batches: int) -> Work:
    """Start where raw ends, read ``batches`` micro-batches of both partitions, and let facts follow each."""

    def work(actor: Actor) -> None:
        publisher = world.publisher(actor.reached)
        ids = TopicIds("cluster", "topic")
        kept = TopicOffsets(dict.fromkeys(PARTITIONS, 0), dict.fromkeys(PARTITIONS, 1_000_000), ids)
        start = start_of(positions_in_log(world), kept, history={})
        if start.new:
            begun = Position(id=begun_id(SALES, TOPIC), before=None, after=1)
            if not _append(world, actor, publisher, (), (begun,)):
                return  # another stream has just begun
        read = dict(start.offsets)
        for number in range(batches):
            end = {partition: offset + 1 + (partition + number) % 2 for partition, offset in read.items()}
            days = _publish_batch(world, actor, publisher, planned_ranges(read, end))
            if days:
                publish(world, {_FACT: days}, _RAW, transaction=SHARED)(actor)
            read = end

    return refusable(work)


def _publish_batch(world: World, actor: Actor, publisher: Publisher, planned: Sequence[OffsetRange]) -> list[date]:
    """The days that gained rows; what another stream has read meanwhile is left out."""
    for _ in range(ATTEMPTS):
        main = MainTable.open(publisher.storage, _RAW)
        ids = {partition: offset_id(SALES, TOPIC, partition) for partition in PARTITIONS}
        known = {partition: (main.transaction(id) if main else None) or 0 for partition, id in ids.items()}
        ranges = new_ranges(planned, known)
        positions = tuple(
            Position(id=ids[each.partition], before=each.first or None, after=each.end) for each in ranges
        )
        if not ranges or _append(world, actor, publisher, ranges, positions):
            offsets = [(ids[each.partition], offset) for each in ranges for offset in range(each.first, each.end)]
            return sorted(merged(rows_of_offset(id, _RAW, offset) for id, offset in offsets))
    return []


def _append(
    world: World,
    actor: Actor,
    publisher: Publisher,
    ranges: Sequence[OffsetRange],
    positions: tuple[Position, ...],
) -> bool:
    """Publish the rows of ``ranges`` with ``positions``; False if others were faster."""
    id = world.name("s")
    offsets = [(each.partition, offset) for each in ranges for offset in range(each.first, each.end)]
    rows = merged(rows_of_offset(offset_id(SALES, TOPIC, partition), _RAW, offset) for partition, offset in offsets)
    rows = rows or {DAYS[0]: ()}
    timeline = stage(world.storage, _RAW, id, rows, world.columns[_RAW])
    actor.reached("staged")
    appended = change(timeline, rows, mode="append", positions=positions)
    wanted = Publication(id=id, kind="append", tables=(appended,), transaction=SHARED)
    world.asked(wanted, {}, {_RAW: rows})
    result = publisher.publish(wanted)
    world.told(id, result)
    return not isinstance(result, Conflict)
