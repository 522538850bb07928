"""What Spark plans to read in a micro-batch, from the checkpoint of the query. The checkpoint is a cache.

Spark writes the plan of a batch before the batch runs. The files are read as they are in Spark 4.2: a line with the
version of the format, then JSON.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.claims import Claim, Claims
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.stream.offsets import Offsets

_OWNER, _CLAIMS = "stream.json", "owner"
"""A file of before there were claims, and the folder of the claims."""
_SPARK = "spark"


@dataclass(frozen=True)
class Checkpoint:
    """The folder of one stream: whose it is, and the checkpoint of the query that runs."""

    folder: Path

    @property
    def spark(self) -> Path:
        """Where Spark keeps the progress of the query."""
        return self.folder / _SPARK

    def renew(self, table: str, source: str, lakehouse: str) -> None:
        """Empty it for a query that starts where raw ends. Raises :class:`InvalidRequest` if it is another stream's.

        Lakehouses may share a folder of this machine, so whose it is names the lakehouse too. A file of before, which
        does not, is of the first that starts. Of two that start at once, exactly one has it.
        """
        ours = {"table": table, "source": source, "lakehouse": lakehouse}
        claims = Claims(Storage(str(self.folder)), _CLAIMS)
        while (owner := self._owner(newest := claims.newest())) != ours:
            if owner is not None and {"lakehouse": lakehouse, **owner} != ours:
                raise self._of_another(owner, ours)
            claims.put(json.dumps(ours).encode(), newest)
        shutil.rmtree(self.spark, ignore_errors=True)

    def _of_another(self, owner: dict[str, str], ours: dict[str, str]) -> InvalidRequest:
        whose = f"of {owner['source']} into {owner['table']}" if owner else "not a stream's"
        other = owner.get("lakehouse", ours["lakehouse"])
        is_elsewhere = other != ours["lakehouse"]
        remove = f"If {other} was moved to {ours['lakehouse']}, remove it" if is_elsewhere else "Remove it"
        return InvalidRequest(
            f"The checkpoint folder {self.folder} is {whose}{f' of the lakehouse {other}' if is_elsewhere else ''}.",
            hint=f"{remove}: {ours['source']} is read from where {ours['table']} ends.",
        )

    def _owner(self, claim: Claim | None) -> dict[str, str] | None:
        """Whose the folder is: None if it is free, nothing at all if it is no stream's."""
        if claim is not None:
            return _parsed(claim.data)
        names = [each.name for each in self.folder.iterdir()] if self.folder.is_dir() else []
        if not self.folder.is_file() and all(_is_unfinished(name) for name in names):
            return None
        owner = self.folder / _OWNER
        return _parsed(owner.read_bytes()) if owner.is_file() else {}

    def topic_offsets(self, batch: int, topic: str) -> Offsets:
        """By partition, the offset after the last event of ``batch``."""
        ends: dict[str, int] = self._source_offset(batch)[topic]
        return {int(partition): end for partition, end in ends.items()}

    def landed_paths(self, batch: int) -> list[Path]:
        """The files that Spark found for ``batch``, in its order."""
        last = int(self._source_offset(batch)["logOffset"])
        before = int(self._source_offset(batch - 1)["logOffset"]) if batch else -1
        log = self.spark / "sources" / "0"
        found: dict[str, int] = {}
        for number in range(before + 1, last + 1):
            name = log / str(number)
            # Every tenth file of Spark's log holds all before it too.
            lines = (name if name.exists() else name.with_name(f"{number}.compact")).read_text().splitlines()[1:]
            entries = (json.loads(line) for line in lines)
            found |= {entry["path"]: number for entry in entries if before < entry["batchId"] <= last}
        return [Path(unquote(urlsplit(path).path)) for path in found]

    def _source_offset(self, batch: int) -> dict[str, Any]:
        lines = (self.spark / "offsets" / str(batch)).read_text().splitlines()
        offset: dict[str, Any] = json.loads(lines[-1])
        return offset


def _parsed(data: bytes) -> dict[str, str] | None:
    """None for a part of a file, which a full disk left when it was written anew at each start."""
    try:
        found = json.loads(data)
    except ValueError:
        return None
    is_owner = isinstance(found, dict) and found.keys() - {"lakehouse"} == {"table", "source"}
    return found if is_owner else {}


def _is_unfinished(name: str) -> bool:
    """Of a process that was killed before it had the folder, or of one that is about to take it."""
    return name == _CLAIMS or (name.startswith(f"{_OWNER}.") and name.endswith(".tmp"))


def latest_offsets(text: str | None) -> Offsets:
    """The newest offsets of the one topic that Spark reports as JSON; empty for files and before the first report."""
    topics = json.loads(text) if text else None
    if not isinstance(topics, dict) or len(topics) != 1:
        return {}
    (partitions,) = topics.values()
    return {int(number): end for number, end in partitions.items()} if isinstance(partitions, dict) else {}
