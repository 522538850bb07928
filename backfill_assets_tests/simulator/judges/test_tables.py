"""The judge of a table, on commits that are written by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

import pyarrow as pa

from backfill_assets.lakehouse.main_table import PUBLICATION_KEY
from backfill_assets_tests.simulator.judges.tables import FOREIGN, TableJudge
from backfill_assets_tests.simulator.model import Wish, Wishes
from backfill_assets_tests.simulator.store import Content

D = date(2017, 3, 1)


@dataclass
class Written:
    """A table's files."""

    contents: dict[str, Content] = field(default_factory=dict)
    version: int = -1

    @property
    def changes(self) -> int:
        return self.version

    def names(self, path: str, /) -> list[str]:
        return sorted(self.contents)

    def commit(
        self, info: dict[str, str], adds: Sequence[str], removes: Sequence[str] = (), txn: tuple[str, int] | None = None
    ) -> None:
        """Each file that is added has a row of its own name."""
        self.version += 1
        actions: list[dict[str, object]] = [{"commitInfo": info}]
        actions += [{"add": {"path": path, "partitionValues": {"day": str(D)}}} for path in adds]
        actions += [{"remove": {"path": path}} for path in removes]
        if txn is not None:
            actions.append({"txn": {"appId": txn[0], "version": txn[1]}})
        self.contents |= {f"raw/{path}": pa.table({"name": [path]}) for path in adds}
        self.contents[f"raw/_delta_log/{self.version:020d}.json"] = "\n".join(map(json.dumps, actions)).encode()


def test_an_append_that_is_taken_back_leaves_the_day_to_those_who_changed_it_since() -> None:
    """A platform has put together what lay beside it: readers see the platform's write again, not an aborted one."""
    files = Written()
    files.commit({FOREIGN: "first"}, ["x"])
    files.commit({PUBLICATION_KEY: "a"}, ["a"], txn=("a", 1))
    files.commit({FOREIGN: "platform"}, ["y"], ["x"])
    files.commit({PUBLICATION_KEY: "a"}, [], ["a"], txn=("a", 2))
    wished = Wish("append", {D: ("a",)}, {D: frozenset({"a"})})
    judge = TableJudge(files, "raw", {"a": Wishes("append", {"raw": wished})})
    judge.follow()
    assert [judge.at(version, D).value for version in range(4)] == ["first", "a", "platform", "platform"]
