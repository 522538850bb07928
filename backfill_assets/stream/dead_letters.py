"""Sends rejected events to a declared topic, once a publication that quarantines them.

A message has the event's place as its key and the tokenised row with its reasons as its value: the event itself stays
in its own topic. It is sent at least once, after the publication, and off the path of rows; quarantine is the truth.
What was sent is a position in the publication log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.records import Prepared
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.landed_lines import event_place, place_values
from backfill_assets.model.declaration import Step
from backfill_assets.publish.publisher import Publisher
from backfill_assets.stream.broker import BrokerAway, Message
from backfill_assets.stream.sources import KafkaTopic

_AGAIN = timedelta(minutes=1)
"""A topic that has refused is left alone so long."""
Row = Mapping[str, Any]
Files = Mapping[str, AddedFile]


def quarantine_of(steps: Iterable[Step], raw: Step) -> str:
    """The table that rejected rows of ``raw`` go to."""
    reads = (step for step in steps if any(read.table == raw.name for read in step.reads))
    return next(table.name for step in reads for table in step.tables if table.layer == "quarantine")


def newly(after: Iterable[Row], before: Iterable[Row]) -> list[Row]:
    """The events of ``after`` that ``before`` lacks, or had for other reasons; rows of landed files are no events."""
    known, found = Counter(map(_identity, before)), list[Row]()
    for row in after:
        if known[_identity(row)] > 0:
            known[_identity(row)] -= 1
        elif event_place(row["source_file"], row["source_line"]):
            found.append(row)
    return sorted(found, key=lambda row: (row["source_file"], row["source_line"]))


def _identity(row: Row) -> tuple[object, ...]:
    return row["source_file"], row["source_line"], row["content_hash"], tuple(row["reasons"])


def message(row: Row, table: str, day: date, publication: str) -> Message:
    named = place_values(row["source_file"], row["source_line"])
    place = {part: named[part] for part in ("topic", "partition", "offset")}
    value = {**place, "table": table, "day": str(day), "reasons": list(row["reasons"]), "row": _row(row)}
    headers = {"publication": publication, "reasons": json.dumps(list(row["reasons"]), ensure_ascii=False)}
    key = "/".join(map(str, place.values()))
    as_headers = tuple((name, text.encode()) for name, text in headers.items())
    return Message(key.encode(), json.dumps(value, ensure_ascii=False).encode(), as_headers)


def _row(row: Row) -> dict[str, object]:
    said = {name: value for name, value in row.items() if name not in ("reasons", "day") and value is not None}
    return {name: value if isinstance(value, int) else str(value) for name, value in said.items()}


@dataclass
class DeadLetters:
    """``to`` gets what ``table`` gains; ``tell`` gets a refusal once."""

    publisher: Publisher
    table: str
    to: KafkaTopic
    tell: Callable[[str], None]
    refused: str = ""
    again: datetime | None = None
    _sent: int | None = field(default=None, init=False)

    @property
    def _storage(self) -> Storage:
        return self.publisher.storage

    @property
    def _position(self) -> Documents[int]:
        mend = "Remove the file: the topic gets what comes from now on."
        return Documents(self._storage, "_outbox/rejected", int, mend)

    @property
    def _name(self) -> str:
        return f"{self.table}.{self.to.topic}"

    def begin(self, read: Iterable[str]) -> None:
        """The topic gets what is quarantined from its first stream on. Raises :class:`InvalidRequest` for a topic that
        is ``read``.
        """
        if self.to.topic in read:
            raise InvalidRequest(
                f"The topic {self.to.topic} is read, and gets what is rejected of it.",
                hint="Declare another topic as rejected_to: it would be read again and again.",
            )
        self._sent = self._position.get(self._name)
        if self._sent is None:
            self._note(self.publisher.log.head().version)

    def send(self, sender: Callable[[str, Sequence[Message]], None]) -> None:
        """Raises nothing for a topic that refuses: it is tried again in a minute."""
        if self._sent is None or (self.again and clock.now() < self.again):
            return
        try:
            last = self._sent
            for last, messages in self._due(self._sent):
                if messages:
                    sender(self.to.topic, messages)
                    self._note(last)
            if last != self._sent:
                self._note(last)
            self.refused, self.again = "", None
        except SourceUnreadable as error:
            self.again = clock.now() + _AGAIN
            if not isinstance(error, BrokerAway) and error.message != self.refused:
                self.refused = error.message
                self.tell(f"Warning: {error}")

    def _note(self, sequence: int) -> None:
        self._position.replace(self._name, sequence)
        self._sent = sequence

    def _due(self, after: int) -> Iterable[tuple[int, list[Message]]]:
        log = self.publisher.log
        columns = ["sequence", "publication"]
        rows = log.files().rows(columns, after=after, event="closed", outcome="done").to_pylist()
        prepared = {each.publication.id: each for each in log.prepared_of([row["publication"] for row in rows])}
        for row in rows:
            yield row["sequence"], self._messages(prepared[row["publication"]])

    def _messages(self, made: Prepared) -> list[Message]:
        publication = made.publication
        if publication.kind == "compact" or self.table not in {each.table for each in publication.tables}:
            return []
        before, found = made.before_files(self.table), list[Message]()
        for day, target in sorted(made.target(self.table).items()):
            came, went = (self._rows(one, other) for one, other in ((target, before[day]), (before[day], target)))
            found += [message(row, self.table, day, publication.id) for row in newly(came, went)]
        return found

    def _rows(self, files: Files, without: Files) -> list[Row]:
        """Of files that are gone by now nothing is known: too much is sent rather than too little."""
        rows = list[Row]()
        for path in sorted(files.keys() - without.keys()):
            if self._storage.exists(f"{self.table}/{path}"):
                rows += self._storage.read_parquet(f"{self.table}/{path}").to_pylist()
        return rows
