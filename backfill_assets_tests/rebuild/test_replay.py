"""A replay frees rejected rows by the contract of now, and changes nothing else about the days that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from types import SimpleNamespace
from typing import Any, cast

from backfill_assets.days import TableDay
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.model.declaration import Step
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.replay import rebuild

DAY = date(2017, 3, 7)


class Remembering:
    """A builder that builds nothing. Every table is published on DAY."""

    def __init__(self) -> None:
        self.lake = SimpleNamespace(catalog=CATALOG, states=self.states)
        self.built: dict[str, tuple[list[date], str | None]] = {}

    def states(self, step: Step) -> dict[TableDay, DayState]:
        (start,) = step.cadence.starts([DAY])
        content = DayContent(1, "1", "v1")
        return {TableDay(table.name, start): DayState(table.name, start, "p", 1, "", content) for table in step.tables}

    def build(self, step: Step, days: Sequence[date], *, version: str | None, **others: Any) -> None:
        self.built[step.name] = (list(days), version)


def test_what_is_made_of_freed_rows_keeps_the_version_that_it_was_published_with() -> None:
    """The bronze step has a version that accepts them; the fact of that day may be of an older one, with its week."""
    builder = Remembering()
    for _ in rebuild(cast("Builder", builder), {"bronze_sales": [DAY]}, RunInfo("a-run"), print):
        pass
    assert builder.built.pop("bronze_sales") == ([DAY], None)
    assert set(builder.built) == {
        step.name for step in CATALOG.steps_with("sales") if step.tables[0].layer in ("fact", "report")
    }
    assert {version for _, version in builder.built.values()} == {"as published"}
