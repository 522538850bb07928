"""Five timelines at once on the same days: each is right by every engine, and beside all that goes on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest
from backfill_assets.timeline.opened import open_timeline
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.cli.command import backfill, types, work_with
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, TABLES, land_late
from backfill_assets_tests.stories.wrong_on_mondays import DRAFT, declare_draft
from backfill_assets_tests.workshop import Workshop

Rows = list[tuple[str, str, Decimal]]
"""Key, day and amount in euros, in order."""
VERSIONS = {"as-v1": "v1", "as-v2": "v2", "draft": DRAFT, "with-late-rows": "v2"}
"""By which version of the fact's logic each timeline has gone forward from the first one."""


@pytest.mark.long
def test_five_timelines_are_read_by_every_engine_while_one_goes_and_files_are_reclaimed(
    wrong: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows are those that main has by each version; they stay so when one is deleted and main goes on."""
    monkeypatch.setenv("BACKFILL_HOME", str(wrong.settings.home))
    declare_draft(monkeypatch)
    work_with(monkeypatch, wrong)
    expected = {"before": main_rows(wrong)}
    before = types("history", FACT)["publications"][0]["publication"]
    for version in ("v2", DRAFT, "v1"):
        wrong.build(FACT, DAYS, version)
        expected[version] = main_rows(wrong)
    types("timeline", "rewind", FACT, "--to", before, "--days", str(DAYS), "--as", "before")
    for name in ("as-v1", "as-v2", "draft"):
        types("timeline", "forward", "before", name, "--version", VERSIONS[name])
    land_late(wrong, built=("raw_sales", "bronze_sales"))
    types("timeline", "forward", "before", "with-late-rows", "--version", "v2")
    wrong.build(FACT, DAYS, "v2")
    expected["with late rows"] = main_rows(wrong)
    wanted = {
        "before": expected["before"],
        "as-v1": expected["v1"],
        "as-v2": expected["v2"],
        "draft": expected[DRAFT],
        "with-late-rows": expected["with late rows"],
    }
    assert expected["before"] == expected["v1"] and len({str(rows) for rows in wanted.values()}) == 4
    assert len(wanted["with-late-rows"]) == len(wanted["as-v2"]) + 1

    assert_read_by_every_engine(wrong, wanted)

    backfill("timeline", "delete", "as-v2", "--yes")
    others = {name: rows for name, rows in wanted.items() if name != "as-v2"}
    deleted = reclaim_after_the_window(wrong)
    assert any(path.startswith(FACT) for path in deleted), "what nothing names any more is gone"
    assert_read_by_every_engine(wrong, others)
    with pytest.raises(InvalidRequest, match="There is no timeline 'as-v2'"):
        open_timeline(wrong.builder.lake.storage, "as-v2")
    assert main_rows(wrong) == expected["with late rows"]


def reclaim_after_the_window(workshop: Workshop) -> list[str]:
    """As maintenance does it when nothing but timelines keeps the files that main has no more."""
    publisher, tables = workshop.builder.lake.publisher, ("raw_sales", "bronze_sales", *TABLES)
    with clock.use(FakeClock(clock.now() + timedelta(days=40))):
        return [path for table in tables for path in reclaim(publisher, table, clock_checked=True)]


def assert_read_by_every_engine(workshop: Workshop, wanted: Mapping[str, Rows]) -> None:
    """Spark by the view, pyarrow and DuckDB by the lines of Python: all as `timeline open` prints them."""
    spark = workshop.builder.lake.spark()
    for name, rows in wanted.items():
        view, recipe = split(backfill("timeline", "open", name, FACT).output)
        spark.sql(view)
        by_spark = spark.sql(f"SELECT transaction_id, CAST(day AS STRING) day, amount_eur FROM {FACT}").collect()  # noqa: S608
        assert sorted(map(tuple, by_spark)) == rows, f"{name} by Spark"
        read: dict[str, Any] = {}
        exec(recipe, read)  # noqa: S102  what a person types
        assert in_order(read["rows"].to_table()) == rows, f"{name} by pyarrow"
        asked = f"SELECT transaction_id, CAST(day AS VARCHAR), amount_eur FROM {FACT}"  # noqa: S608
        assert sorted(read["connection"].sql(asked).fetchall()) == rows, f"{name} by DuckDB"


def split(printed: str) -> tuple[str, str]:
    """The view of Spark SQL, and the lines of Python."""
    before, _, recipe = printed.partition("Python: pyarrow and DuckDB\n")
    (view,) = (line.partition("\t")[2] for line in before.splitlines() if "CREATE" in line)
    return view.rstrip(";"), recipe


def main_rows(workshop: Workshop) -> Rows:
    rows = workshop.read(FACT)
    days = [str(day) for day in rows["day"].tolist()]
    return sorted(zip(rows["transaction_id"].tolist(), days, rows["amount_eur"].tolist(), strict=True))


def in_order(table: pa.Table) -> Rows:
    return sorted((row["transaction_id"], str(row["day"]), row["amount_eur"]) for row in table.to_pylist())
