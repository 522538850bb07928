from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from backfill_assets.days import day_or_none
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.delta_log import actions_back
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN, PUBLICATION_KEY
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.text import escape_controls

_MOST_COMMITS = 400
_MOST_LETTERS = 80
_IN_PATH = re.compile(rf"{PARTITION_COLUMN}=(\d{{4}}-\d\d-\d\d)/")


@dataclass(frozen=True)
class ForeignCommit:
    version: int
    at: datetime | None = None
    operation: str = ""
    engine: str = ""
    user: str = ""

    def __str__(self) -> str:
        by = f"{self.operation or 'a write'} by {self.engine or 'an engine that does not say its name'}"
        moment = f"{self.at:%Y-%m-%d %H:%M} UTC" if self.at else ""
        return ", ".join(filter(None, (by, self.user and f"user {self.user}", f"version {self.version}", moment)))


def find_foreign_commits(
    storage: Storage, table: str, version: int, publications: Mapping[date, str]
) -> list[ForeignCommit]:
    """``publications`` is each day's last one (empty: none). Newest first, up to an unreadable commit."""
    wanted, found = dict(publications), list[ForeignCommit]()
    with suppress(LakehouseUnusable):
        for number, actions in actions_back(storage, table, version, _MOST_COMMITS):
            info: dict[str, Any] = next((each["commitInfo"] for each in actions if "commitInfo" in each), {})
            if publication := info.get(PUBLICATION_KEY):
                wanted = {day: last for day, last in wanted.items() if last != publication}
            elif not wanted.keys().isdisjoint(_days_of(actions)):
                found.append(commit_of(number, info))
            if not wanted:
                break
    return found


def _days_of(actions: Iterable[Mapping[str, Any]]) -> set[date]:
    files = (action[kind] for action in actions for kind in ("add", "remove") if kind in action)
    return {day for file in files if (day := day_or_none(_day_of(file))) is not None}


def _day_of(file: Mapping[str, Any]) -> str:
    in_path = _IN_PATH.search(file["path"])
    return str((file.get("partitionValues") or {}).get(PARTITION_COLUMN) or (in_path[1] if in_path else ""))


def commit_of(version: int, info: Mapping[str, Any]) -> ForeignCommit:
    moment = info.get("timestamp")
    return ForeignCommit(
        version,
        datetime.fromtimestamp(moment / 1000, UTC) if isinstance(moment, int) else None,
        _text(info, "operation"),
        _text(info, "engineInfo") or _text(info, "clientVersion"),
        _text(info, "userName") or _text(info, "userId"),
    )


def _text(info: Mapping[str, Any], key: str) -> str:
    return escape_controls(str(info.get(key) or ""))[:_MOST_LETTERS]
