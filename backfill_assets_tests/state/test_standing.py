"""What a plan is computed from is read off the logs: sizes, times, what may go, and the plans themselves."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.days import TableDay, parse_day
from backfill_assets.errors import InvalidRequest, LakehouseBusy
from backfill_assets.lakehouse.delta_log import LogState, read_log, schema_at
from backfill_assets.lakehouse.plans import keep_plan, kept_plan, plan_ids
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish import pinned
from backfill_assets.publish.rows import DAY_COLUMNS, _content_columns, day_state
from backfill_assets.state import observed
from backfill_assets.state.damage import files_may_go
from backfill_assets.state.observed import observe
from backfill_assets_tests.begun_campaign import begin, give_up, going
from backfill_assets_tests.small_lakehouse import SmallLakehouse

D1, D2 = date(2017, 3, 1), date(2017, 3, 2)
ID = "plan-0123456789abcdef"


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[SmallLakehouse]:
    found = SmallLakehouse(tmp_path / "lakehouse")
    with clock.use(found.time):
        yield found


def test_sizes_schemas_and_the_entry_looked_at(lakehouse: SmallLakehouse) -> None:
    """Bytes of each day as the last closed entry has it; tables that are not there have neither."""
    lakehouse.publish("first", {"fact": {D1: [1], D2: [2, 3]}})
    standing = observe(lakehouse.storage, ["fact", "report"])
    sizes = {
        parse_day(f.path.split("day=")[1][:10]): f.size
        for f in lakehouse.storage.files("fact", recursive=True)
        if "day=" in f.path
    }
    assert standing.bytes == {"fact": sizes}
    assert standing.versions == {"fact": 1} and standing.sequence > 0
    assert [field["name"] for field in json.loads(schema_at(lakehouse.storage, "fact", 1))["fields"]] == ["id", "day"]


def test_files_of_a_version_may_go_a_window_after_main_let_go_of_them(lakehouse: SmallLakehouse) -> None:
    """A later publication of other days takes nothing away; one that replaces a day does, from its moment on."""
    lakehouse.publish("first", {"fact": {D1: [1], D2: [2]}})
    held, now = {"fact": 1}, lakehouse.now()
    lakehouse.publish("other", {"fact": {date(2017, 3, 3): [3]}})
    assert files_may_go(lakehouse.storage, held, 30, now) == {}
    lakehouse.publish("second", {"fact": {D1: [9]}})
    replaced = lakehouse.now()
    assert files_may_go(lakehouse.storage, held, 30, replaced) == {"fact": replaced + timedelta(days=30)}
    assert files_may_go(lakehouse.storage, {"fact": 3, "report": 1}, 30, replaced) == {}


def test_the_time_that_staging_took_is_kept_and_older_logs_have_none() -> None:
    """It is not a metric: those are what the gates look at, and what people see of a day."""
    content = DayContent(rows=1, checksum="7", metrics={"rows_of_a_kind": 2}, staged_ms=450)
    row = {**dict.fromkeys(DAY_COLUMNS, ""), "day": str(D1), "sequence": 3, **_content_columns(content)}
    assert day_state(row).content == content
    before = {**row, "metrics": '{"rows_of_a_kind": 2}'}
    assert day_state(before).content == replace(content, staged_ms=None)
    assert content.plus(content).staged_ms == 900


def test_a_plan_is_kept_once_and_found_by_its_id(lakehouse: SmallLakehouse) -> None:
    """The same id is the same content: the first one stays."""
    assert keep_plan(lakehouse.storage, ID, "{}") and not keep_plan(lakehouse.storage, ID, "{ }")
    assert kept_plan(lakehouse.storage, ID) == b"{}" and plan_ids(lakehouse.storage) == [ID]
    with pytest.raises(InvalidRequest, match=f"Did you mean {ID}"):
        kept_plan(lakehouse.storage, "plan-0123456789abcdee")
    begin(lakehouse.storage, ID)
    assert going(lakehouse.storage) == [ID]
    give_up(lakehouse.storage, ID)
    assert going(lakehouse.storage) == []


def test_publications_of_other_tables_do_not_disturb_a_look(
    lakehouse: SmallLakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream publishes elsewhere every moment: what is looked at has not moved."""
    lakehouse.publish("first", {"fact": {D1: [1]}})
    numbers = itertools.count()

    def read(storage: Storage, table: str, version: int) -> LogState:
        lakehouse.publish(f"stream{next(numbers)}", {"stream": {D1: [1]}})
        return read_log(storage, table, version)

    monkeypatch.setattr(pinned, "read_log", read)
    found = observe(lakehouse.storage, ["fact"])
    assert found.newest["fact"][D1] == found.states[TableDay("fact", D1)].physical
    assert next(numbers) < 5


def test_a_table_that_is_published_to_at_every_look_is_named(
    lakehouse: SmallLakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends, and says which tables never stood still."""
    monkeypatch.setattr(observed, "_MOST_LOOKS", 4)
    lakehouse.publish("first", {"fact": {D1: [1]}})
    numbers = itertools.count()

    def read(storage: Storage, table: str, version: int) -> LogState:
        found = read_log(storage, table, version)
        lakehouse.publish(f"again{next(numbers)}", {"fact": {D1: [1]}})
        return found

    monkeypatch.setattr(pinned, "read_log", read)
    with pytest.raises(LakehouseBusy, match="Looking at fact: gave up after 4 attempts"):
        observe(lakehouse.storage, ["fact"])
