"""Back to before a wrong publication, forward again from there, and each timeline answers by itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild import step_build
from backfill_assets.timeline.opened import open_timeline
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, TABLES, contents, held, refuse
from backfill_assets_tests.workshop import Workshop

Rows = list[tuple[str, str, Decimal]]
"""Key, day and amount in euros, in order."""


def test_back_to_before_it_and_forward_by_another_version(wrong: Workshop, backfill: Backfill) -> None:
    """v1 is published, v2 over it; on timelines the days are v1's again, then v2's, and main stays as it is.

    Every engine reads each of them, also when another one is deleted and what nothing names any more is reclaimed.
    """
    old, old_rows, frozen = contents(wrong), wrong.read(FACT), main_rows(wrong)
    wrong.build_all(DAYS, "v2")
    wrong.build_reports(DAYS)
    new, new_rows, sessions = contents(wrong), wrong.read(FACT), wrong.sessions
    (moment, *_) = backfill.json("timeline", "rewind", FACT)["moments"]

    backfill("timeline", "rewind", FACT, "--to", f"{moment['publication']}^", "--as", "before-v2")
    assert held(wrong, "before-v2") == {key: old[key] for key in held(wrong, "before-v2")} != {}
    assert contents(wrong) == new

    done = backfill.json("timeline", "forward", "before-v2", "--version", "v1", "--as", "still-v1")
    assert {name: step for step in done["steps"] for name in ("staged", "from_main") if step[name]} == {}
    assert held(wrong, "still-v1") == held(wrong, "before-v2")

    done = backfill.json("timeline", "forward", "before-v2", "--version", "v2", "--as", "as-main")
    assert all(not step["staged"] for step in done["steps"])
    assert held(wrong, "as-main") == {key: new[key] for key in held(wrong, "as-main")}

    same = backfill.json("diff", "main", "as-main")
    assert same["tables"] and {row["differ"] for row in same["tables"]} == {0}
    fact = backfill.json("diff", "before-v2", "as-main", "--table", FACT)["by_table"][FACT]["days"]
    for side, rows in (("before", old_rows), ("after", new_rows)):
        sums = rows.groupby("day")["amount_eur"].sum()
        assert {day["day"]: Decimal(day[side]) for day in fact} == {
            day["day"]: sums[date.fromisoformat(day["day"])] for day in fact
        }
    assert {day["is"] for day in fact} == {"compared"}
    by_publication = backfill.json("diff", moment["publication"], "before-v2", "--table", FACT, "--days", DAYS)
    back = by_publication["by_table"][FACT]["days"]
    assert [-Decimal(day["change"]) for day in back if day["is"] == "compared"] == [
        Decimal(day["change"]) for day in fact
    ]
    assert wrong.sessions == sessions, "rows that differ are compared without Spark, wherever a state has them"

    assert_read_by_every_engine(wrong, backfill, {"before-v2": frozen, "as-main": main_rows(wrong)})
    backfill("timeline", "delete", "before-v2", "--yes")
    reclaim_after_the_window(wrong)
    assert_read_by_every_engine(wrong, backfill, {"still-v1": frozen})
    backfill("timeline", "delete", "still-v1", "--yes")
    assert any(path.startswith(FACT) for path in reclaim_after_the_window(wrong)), "nothing names it any more"
    assert_read_by_every_engine(wrong, backfill, {"as-main": main_rows(wrong)})
    with pytest.raises(InvalidRequest, match="There is no timeline 'still-v1'"):
        open_timeline(wrong.builder.lake.storage, "still-v1")
    assert contents(wrong) == new


def test_a_timeline_is_published_as_a_plan_is_and_undone(
    wrong: Workshop, backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What forward has staged is published as it is, also if the timeline is deleted before it is approved."""
    old = contents(wrong)
    before = backfill.json("history", FACT)["publications"][0]["publication"]
    backfill("timeline", "rewind", FACT, "--to", before, "--days", DAYS, "--as", "trial")
    backfill("timeline", "forward", "trial", "--version", "v2")
    tried = held(wrong, "trial")
    assert contents(wrong) == old != old | tried

    with monkeypatch.context() as patch:
        patch.setattr(step_build, "write_chunk", refuse)
        staged = backfill.json("timeline", "publish", "trial", "--expect", "rows unchanged")
    assert contents(wrong) == old
    backfill("timeline", "forward", "trial", "--version", "v2", "--as", "same")
    backfill("timeline", "delete", "trial", "--yes")
    for table in ("raw_sales", FACT, "fact_daily_revenue"):
        reclaim(wrong.builder.lake.publisher, table, clock_checked=True)
    assert backfill.json("diff", staged["plan"])["tables"] != []
    published = backfill.json("approve", staged["plan"], "--yes")
    assert contents(wrong) == old | tried
    assert "nothing to publish" in backfill("timeline", "publish", "same").output
    backfill("rollback", published["publication"], "--yes")
    assert contents(wrong) == old


def reclaim_after_the_window(workshop: Workshop) -> list[str]:
    """As maintenance does it when nothing but timelines keeps the files that main has no more."""
    publisher = workshop.builder.lake.publisher
    later = Publisher(publisher.storage, now=lambda: publisher.now() + timedelta(days=40))
    tables = ("raw_sales", "bronze_sales", *TABLES)
    return [path for table in tables for path in reclaim(later, table, clock_checked=True)]


def assert_read_by_every_engine(workshop: Workshop, backfill: Backfill, wanted: Mapping[str, Rows]) -> None:
    """Spark by the view, pyarrow and DuckDB by the lines of Python: all as `timeline open` prints them."""
    spark = workshop.builder.lake.spark()
    for name, rows in wanted.items():
        before, _, recipe = backfill("timeline", "open", name, FACT).output.partition("Python: pyarrow and DuckDB\n")
        (view,) = (line.partition("\t")[2] for line in before.splitlines() if "CREATE" in line)
        spark.sql(view.rstrip(";"))
        by_spark = spark.sql(f"SELECT transaction_id, CAST(day AS STRING) day, amount_eur FROM {FACT}").collect()  # noqa: S608
        assert sorted(map(tuple, by_spark)) == rows, f"{name} by Spark"
        read: dict[str, Any] = {}
        exec(recipe, read)  # noqa: S102  what a person types
        assert in_order(read["rows"].to_table()) == rows, f"{name} by pyarrow"
        asked = f"SELECT transaction_id, CAST(day AS VARCHAR), amount_eur FROM {FACT}"  # noqa: S608
        assert sorted(read["connection"].sql(asked).fetchall()) == rows, f"{name} by DuckDB"


def main_rows(workshop: Workshop) -> Rows:
    rows = workshop.read(FACT)
    days = [str(day) for day in rows["day"].tolist()]
    return sorted(zip(rows["transaction_id"].tolist(), days, rows["amount_eur"].tolist(), strict=True))


def in_order(table: pa.Table) -> Rows:
    return sorted((row["transaction_id"], str(row["day"]), row["amount_eur"]) for row in table.to_pylist())
