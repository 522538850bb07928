"""What must become of live events, from their lines alone: how many there are, and which version wins on which day.

Of a transaction and day the greatest version wins. It is superseded if a greater one is on another day within the
window of the sales; then it is no line of the facts.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from itertools import islice
from typing import Any, NamedTuple

from backfill_assets.examples.sample.defects import SUPERSESSION_WINDOW_DAYS
from backfill_assets.examples.sample.live import EventKind, LiveEvent, LiveSpec, live_events
from backfill_assets_tests.examples.sample.landed_lines import hundredths

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")


class SaleVersion(NamedTuple):
    """What a readable line says: one version of a transaction, on a day."""

    transaction_id: str
    day: date
    updated_at: str
    """Texts of one form: they compare as the moments do."""
    currency: str
    cents: int
    """``sales_value`` in hundredths of the currency's unit."""


def version_of(event: LiveEvent) -> SaleVersion | None:
    """None if the line cannot be read."""
    if event.kind == "unreadable":
        return None
    row = json.loads(event.text)
    day = date.fromisoformat(row["transaction_timestamp"][:10])
    cents = hundredths(row["sales_value"])
    return SaleVersion(f"{row['basket_id']}-{row['product_id']}", day, row["updated_at"], row["currency"], cents)


class LiveTally:
    """Of some events, in any order: each line that was sent counts once, also one that was sent twice."""

    def __init__(self, events: Iterable[LiveEvent] = ()) -> None:
        self.by_kind: Counter[EventKind] = Counter()
        self._greatest: dict[tuple[str, date], SaleVersion] = {}
        for event in events:
            self.add(event)

    @classmethod
    def up_to(cls, spec: LiveSpec, lines: int) -> LiveTally:
        """Of the first ``lines`` events of ``spec``."""
        return cls(islice(live_events(spec), lines))

    def add(self, event: LiveEvent) -> None:
        self.by_kind[event.kind] += 1
        if (version := version_of(event)) is not None:
            key = version.transaction_id, version.day
            known = self._greatest.get(key)
            if known is None or version.updated_at > known.updated_at:
                self._greatest[key] = version

    @property
    def lines(self) -> int:
        """How many rows raw must have."""
        return self.by_kind.total()

    @property
    def quarantined(self) -> int:
        return self.by_kind["unreadable"]

    @property
    def deduplicated(self) -> int:
        """Readable lines that lose against another of their transaction and day."""
        return self.lines - self.quarantined - len(self._greatest)

    def winners(self) -> dict[tuple[date, str], SaleVersion]:
        """By day and transaction: exactly the lines that the facts must have."""
        return {(each.day, each.transaction_id): each for each in self._by_outcome(superseded=False)}

    def superseded(self) -> dict[tuple[date, str], SaleVersion]:
        """By day and transaction: the greatest of its day, and a greater one is on a day nearby."""
        return {(each.day, each.transaction_id): each for each in self._by_outcome(superseded=True)}

    def days(self) -> dict[date, int]:
        """How many winners each day has."""
        return dict(sorted(Counter(day for day, _ in self.winners()).items()))

    def checksum(self) -> int:
        """The sum of :func:`winner_checksum` over the winners."""
        return sum(map(winner_checksum, self.winners().values()))

    def as_json(self) -> dict[str, Any]:
        """Plain data; days are texts."""
        return {
            "lines": self.lines,
            "quarantined": self.quarantined,
            "deduplicated": self.deduplicated,
            "superseded": len(self.superseded()),
            "winners": {str(day): number for day, number in self.days().items()},
            "checksum": self.checksum(),
            "by_kind": dict(self.by_kind),
        }

    def _by_outcome(self, *, superseded: bool) -> Iterator[SaleVersion]:
        by_transaction: defaultdict[str, list[SaleVersion]] = defaultdict(list)
        for version in self._greatest.values():
            by_transaction[version.transaction_id].append(version)
        for versions in by_transaction.values():
            for version in versions:
                if any(_supersedes(other, version) for other in versions) is superseded:
                    yield version


def winner_checksum(version: SaleVersion) -> int:
    """CRC-32 of ``transaction_id|day|cents|microseconds``: of what Spark can compute from a line of the facts."""
    moment = datetime.fromisoformat(version.updated_at) - _EPOCH
    micros = (moment.days * 86_400 + moment.seconds) * 1_000_000 + moment.microseconds
    return zlib.crc32(f"{version.transaction_id}|{version.day}|{version.cents}|{micros}".encode())


def _supersedes(newer: SaleVersion, older: SaleVersion) -> bool:
    distance = abs((newer.day - older.day).days)
    return 1 <= distance <= SUPERSESSION_WINDOW_DAYS and newer.updated_at > older.updated_at
