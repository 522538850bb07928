"""What must be in the lakehouse after a tally, by the generator of the events alone; each difference is a sentence.

Rows are read with PyArrow and their checksums computed in Python: Spark, which wrote them, has no part in it.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from typing import Any

from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.demo.accounting import account
from backfill_assets.examples.sample.live import LiveSpec, live_events
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets.state.view import View
from backfill_assets.text import format_are
from backfill_assets_tests.examples.sample.live_tally import LiveTally, SaleVersion, version_of, winner_checksum
from backfill_assets_tests.protocol.audit import log_rows
from backfill_assets_tests.stream.sent import partition_of

RAW, BRONZE, QUARANTINE = "raw_sales", "bronze_sales", "quarantine_sales"
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
_LANDED = ("basket_id", "product_id", "sales_value", "transaction_timestamp", "updated_at")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Place = tuple[int, int]
"""Partition and offset."""
Sums = tuple[Decimal, int, int]
"""Of a day: euros, lines, quantity."""


@dataclass
class ExpectedEvents:
    """What the generator has made: where each event is in the topic, and which versions win."""

    tally: LiveTally
    by_partition: Counter[int]
    raw_checksum: int
    unreadable: set[Place]

    @classmethod
    def up_to(cls, spec: LiveSpec, lines: int, partitions: int) -> ExpectedEvents:
        """Of the first ``lines`` events of ``spec``, each sent once and in order."""
        found = cls(LiveTally(), Counter(), 0, set())
        for event in islice(live_events(spec), lines):
            partition = partition_of(event, partitions)
            place = partition, found.by_partition[partition]
            found.by_partition[partition] += 1
            found.tally.add(event)
            if version_of(event) is None:
                found.unreadable.add(place)
            landed = {} if version_of(event) is None else json.loads(event.text)
            found.raw_checksum += raw_checksum(place, landed)
        return found


def raw_checksum(place: Place, landed: Mapping[str, Any]) -> int:
    """CRC-32 of an event's place and of what it says; of one that cannot be read, of its place alone."""
    return zlib.crc32("|".join([*map(str, place), *(landed.get(name) or "" for name in _LANDED)]).encode())


@dataclass(frozen=True)
class TallyCheck:
    """Compares a lakehouse, as it is now, with what the generator has made."""

    storage: Storage
    expected: ExpectedEvents
    ends: Mapping[int, int]
    """The end offset of each partition of the topic."""
    days: DayRange
    """All days that an event can be of."""

    def wrong(self) -> list[str]:
        """A sentence for each broken promise; empty if all hold."""
        checks = (self._topic, self._raw, self._quarantine, self._bronze, self._facts, self._revenue, self._accounts)
        return [sentence for check in (*checks, self._publications) for sentence in check()]

    def _rows(self, table: str, columns: list[str]) -> list[dict[str, Any]]:
        rows = View.newest(self.storage).rows(table, columns=columns)
        found: list[dict[str, Any]] = [] if rows is None else rows.to_pylist()
        return found

    def _topic(self) -> Iterator[str]:
        sent = dict(self.expected.by_partition)
        if sent != {partition: end for partition, end in self.ends.items() if end}:
            yield f"the topic holds {dict(self.ends)} events by partition, and the producer has sent {sent}"

    def _raw(self) -> Iterator[str]:
        """Each event once, by partition and offset, with what it says."""
        rows = self._rows(RAW, ["record_kind", "source_file", "source_line", *_LANDED])
        found = {n: row for n, row in enumerate(rows) if row["record_kind"] == "received"}
        places = {n: (int(row["source_file"].rpartition("/")[2]), row["source_line"]) for n, row in found.items()}
        counts = Counter(places.values())
        wanted = {(part, offset) for part, count in self.expected.by_partition.items() for offset in range(count)}
        yield from _missing_or_extra(RAW, wanted, counts)
        unreadable = self.expected.unreadable
        checksum = sum(raw_checksum(place, {} if place in unreadable else found[n]) for n, place in places.items())
        if checksum != self.expected.raw_checksum:
            yield f"{RAW}: its checksum is {checksum}, and the generator's is {self.expected.raw_checksum}"

    def _quarantine(self) -> Iterator[str]:
        found, wanted = len(self._rows(QUARANTINE, ["day"])), self.expected.tally.quarantined
        if found != wanted:
            yield f"{QUARANTINE} has {found:,} rows, and {wanted:,} events cannot be read"

    def _bronze(self) -> Iterator[str]:
        """Also those that a newer version on another day supersedes: they are rows of bronze, and none of the facts."""
        tally = self.expected.tally
        yield from self._versions(BRONZE, {**tally.winners(), **tally.superseded()})

    def _facts(self) -> Iterator[str]:
        yield from self._versions(FACT, self.expected.tally.winners())

    def _versions(self, table: str, wanted: Mapping[tuple[date, str], SaleVersion]) -> Iterator[str]:
        rows = self._rows(table, ["day", "transaction_id", "sales_value", "updated_at"])
        yield from _missing_or_extra(table, wanted, Counter((row["day"], row["transaction_id"]) for row in rows))
        found, expected = sum(map(_row_checksum, rows)), sum(map(winner_checksum, wanted.values()))
        if found != expected:
            yield f"{table}: its checksum is {found}, and the generator's is {expected}"

    def _revenue(self) -> Iterator[str]:
        """Daily revenue is the sum of the facts, day by day."""
        facts = self._rows(FACT, ["day", "amount_eur", "quantity"])
        reports = self._rows(REVENUE, ["day", "revenue_eur", "lines", "quantity"])
        wanted = _sums((row["day"], row["amount_eur"], 1, row["quantity"]) for row in facts)
        found = _sums((row["day"], row["revenue_eur"], row["lines"], row["quantity"]) for row in reports)
        for day in sorted(wanted.keys() | found.keys()):
            if wanted.get(day) != found.get(day):
                yield f"{REVENUE} {day}: {found.get(day)}, and the facts sum up to {wanted.get(day)}"

    def _accounts(self) -> Iterator[str]:
        """Everything received is accounted for on each day, and the counts are the generator's."""
        log, tally = PublicationLog(self.storage), self.expected.tally
        tables = (RAW, BRONZE, QUARANTINE, FACT, REVENUE)
        states = log.day_states(log.head(), tables)
        days = sorted({key.day for key in states})
        steps = [CATALOG.step(table) for table in (BRONZE, FACT)]
        for found in account(steps, days, states):
            if found.reconciled != found.days:
                yield f"{found.table}: {format_are(found.days - found.reconciled, 'day')} not accounted for"
            counts = (found.received, found.quarantined, found.deduplicated, found.superseded)
            wanted = (tally.lines, tally.quarantined, tally.deduplicated, len(tally.superseded()))
            if counts != wanted:
                yield f"{found.table}: received, quarantined, deduplicated, superseded are {counts}, not {wanted}"

    def _publications(self) -> Iterator[str]:
        """No entry of the log is open, and each one that is done has published every table that it names."""
        log = PublicationLog(self.storage)
        if log.head().state.open:
            yield f"publications are open: {', '.join(log.head().state.open)}"
        planned: defaultdict[str, set[str]] = defaultdict(set)
        published: defaultdict[str, set[str]] = defaultdict(set)
        done = set()
        for row in log_rows(log, columns=["event", "publication", "outcome", "table"]):
            if row["event"] == "preparing day":
                planned[row["publication"]].add(row["table"])
            if row["event"] == "published":
                published[row["publication"]].add(row["table"])
            if row["event"] == "closed" and row["outcome"] == "done":
                done.add(row["publication"])
        for publication in sorted(done):
            if planned[publication] != published[publication]:
                half = planned[publication] - published[publication]
                yield f"{publication} is done, and has not published {', '.join(sorted(half))}"


def contents(storage: Storage, tables: Iterable[str], days: DayRange) -> dict[tuple[str, date], tuple[int, str]]:
    """The count of rows and the checksum of each published day."""
    log = PublicationLog(storage)
    states = log.day_states(log.head(), tables)
    return {
        (table, day): (state.content.rows, state.content.checksum)
        for (table, day), state in states.items()
        if state.content and day in days
    }


def _missing_or_extra(table: str, wanted: Iterable[object], found: Counter[Any]) -> Iterator[str]:
    lost = [each for each in wanted if not found[each]]
    extra = list(found - Counter(list(wanted)))
    for what, places in (("lost", lost), ("there too often", extra)):
        if places:
            yield f"{table}: {len(places):,} are {what}: {', '.join(map(str, places[:3]))}"


def _row_checksum(row: Mapping[str, Any]) -> int:
    moment = row["updated_at"] - _EPOCH if row["updated_at"].tzinfo else row["updated_at"].replace(tzinfo=UTC) - _EPOCH
    micros = (moment.days * 86_400 + moment.seconds) * 1_000_000 + moment.microseconds
    cents = int(row["sales_value"].scaleb(2))
    return zlib.crc32(f"{row['transaction_id']}|{row['day']}|{cents}|{micros}".encode())


def _sums(rows: Iterable[tuple[date, Decimal, int, int]]) -> dict[date, Sums]:
    found: dict[date, Sums] = {}
    for day, euros, lines, quantity in rows:
        before = found.get(day, (Decimal(0), 0, 0))
        found[day] = (before[0] + euros, before[1] + lines, before[2] + quantity)
    return found
