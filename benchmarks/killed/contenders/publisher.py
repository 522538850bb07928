"""This project: days are staged, and published by one entry of the log. Runs in the project's environment."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from deltalake import DeltaTable

from backfill_assets.lakehouse.records import Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.publisher import Published, Publisher
from backfill_assets.state.reading import published_versions
from backfill_assets_tests.protocol.staging import change, stage
from benchmarks.killed.contract import DAYS, ROWS, TABLES, Held, commits, held, main, replaces
from benchmarks.killed.delta_files import named_files, of_delta


class ThisProject:
    """Readers take the map of the last closed entry; those past the log take each table as it is."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.storage = Storage(str(home))
        self.publisher = Publisher(self.storage)

    def set_up(self) -> None:
        self._publish("setup")

    def reads(self) -> Mapping[str, Callable[[], Held]]:
        return {"pinned": self._pinned, "past the log": self._past_the_log}

    def rewrite(self, tag: str) -> None:
        self._publish(tag)

    def routine(self) -> None:
        """Whoever comes next finishes what is open, first of all."""
        self.publisher.recover()

    def litter(self) -> int:
        """What dead processes have staged and nobody published; `reclaim` deletes it when the window is over."""
        there = {
            str(path.relative_to(self.home)) for path in self.home.rglob("*.parquet") if "_delta_log" not in path.parts
        }
        data = {path for path in there if path.split("/")[0] in TABLES}
        return len(data - {f"{table}/{path}" for table in TABLES for path in named_files(self.home / table)})

    def _publish(self, tag: str) -> None:
        rows = {day: [f"{tag}/{n}" for n in range(ROWS)] for day in DAYS}
        while True:
            pin = self.publisher.pin(dict.fromkeys(TABLES, DAYS), {})
            saw: dict[str, dict[str, str | None]] = {table: {} for table in TABLES}
            for key, expected in pin.expected.items():
                saw[key.table][str(key.day)] = expected.publication or None
            replaces(saw)
            id = f"{tag}-{uuid.uuid4().hex[:6]}" if tag != "setup" else tag
            changes = tuple(change(stage(self.storage, table, id, rows), rows, pin) for table in TABLES)
            commits()
            if isinstance(self.publisher.publish(Publication(id=tag, kind="replace", tables=changes)), Published):
                return

    def _pinned(self) -> Held:
        versions = published_versions(self.storage)
        return held(
            row for table in TABLES for row in of_delta(table, DeltaTable(str(self.home / table), versions[table]))
        )

    def _past_the_log(self) -> Held:
        return held(row for table in TABLES for row in of_delta(table, DeltaTable(str(self.home / table))))


if __name__ == "__main__":
    main(ThisProject)
