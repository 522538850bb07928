"""A contender that writes a file for each table, one after the other: whoever kills it finds what that leaves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.killed.contract import DAYS, TABLES, Held, commits, main, replaces


class OneFileATable:
    def __init__(self, home: Path) -> None:
        self.home = home

    def set_up(self) -> None:
        for table in TABLES:
            self._write(table, "setup")

    def reads(self) -> Mapping[str, Callable[[], Held]]:
        return {"pinned": self._read}

    def rewrite(self, tag: str) -> None:
        replaces(self._read())
        commits()
        for table in TABLES:
            self._write(table, tag)
            time.sleep(0.1)

    def routine(self) -> None:
        """There is none."""

    def litter(self) -> int:
        return len(list(self.home.glob("*.unfinished")))

    def _read(self) -> Held:
        return {table: json.loads((self.home / f"{table}.json").read_text()) for table in TABLES}

    def _write(self, table: str, tag: str) -> None:
        unfinished = self.home / f"{table}.unfinished"
        unfinished.write_text(json.dumps({str(day): tag for day in DAYS}))
        unfinished.replace(self.home / f"{table}.json")


if __name__ == "__main__":
    main(OneFileATable)
