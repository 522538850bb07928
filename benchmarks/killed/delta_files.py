"""Delta tables as both contenders have them: their rows by tag, and the files that their logs name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable


def of_delta(table: str, opened: DeltaTable) -> Iterator[tuple[str, date, str, int]]:
    """Counted rows: a name is its tag, a slash, and a number."""
    rows = opened.to_pyarrow_table(columns=["day", "name"]).to_pylist()
    counted = Counter((row["day"], row["name"].split("/")[0]) for row in rows)
    return ((table, day, tag, number) for (day, tag), number in counted.items())


def named_files(table: Path) -> set[str]:
    """Paths that a commit has ever added, as any version of the table may be read."""
    entries = [line for log in (table / "_delta_log").glob("*.json") for line in log.read_text().splitlines()]
    return {unquote(add["path"]) for entry in entries if (add := json.loads(entry).get("add"))}
