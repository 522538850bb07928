"""Back to before a wrong publication, forward again from there, and each timeline answers by itself."""

from __future__ import annotations

import time
from datetime import date
from decimal import Decimal

import pytest

from backfill_assets.cli import foreground
from backfill_assets.rebuild import step_build
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.cli.command import backfill, types
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, LATE_DAY, contents, held, land_late, refuse
from backfill_assets_tests.stories.test_many_timelines import assert_read_by_every_engine, main_rows
from backfill_assets_tests.workshop import Workshop


def test_back_to_before_it_and_forward_by_another_version(
    wrong: Workshop, righted: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """v1 is published, v2 over it; on the timeline the days are v1's again, then v2's, and main stays as it is."""
    monkeypatch.setenv("BACKFILL_HOME", str(righted.settings.home))
    old, old_rows, frozen = contents(wrong), wrong.read(FACT), main_rows(wrong)
    new, new_rows = contents(righted), righted.read(FACT)
    (moment, *_) = types("timeline", "rewind", FACT)["moments"]

    began = time.monotonic()
    made = types("timeline", "rewind", FACT, "--to", f"{moment['publication']}^", "--as", "before-v2")
    print(f"rewound {made['days']} days in {time.monotonic() - began:.2f} s")
    assert held(righted, "before-v2") == {key: old[key] for key in held(righted, "before-v2")} != {}
    assert contents(righted) == new

    started: list[object] = []
    monkeypatch.setattr(foreground, "foreground_spark", lambda *_: started.append(1))
    done = types("timeline", "forward", "before-v2", "still-v1", "--version", "v1")
    assert {name: step for step in done["steps"] for name in ("staged", "from_main") if step[name]} == {}
    assert started == [] and held(righted, "still-v1") == held(righted, "before-v2")

    done = types("timeline", "forward", "before-v2", "as-main", "--version", "v2")
    assert started == [] and all(not step["staged"] for step in done["steps"])
    assert held(righted, "as-main") == {key: new[key] for key in held(righted, "as-main")}

    same = types("diff", "main", "as-main")
    assert started == [] and same["tables"] and {row["differ"] for row in same["tables"]} == {0}
    fact = types("diff", "before-v2", "as-main", "--table", FACT)["by_table"][FACT]["days"]
    for side, rows in (("before", old_rows), ("after", new_rows)):
        sums = rows.groupby("day")["amount_eur"].sum()
        assert {day["day"]: Decimal(day[side]) for day in fact} == {
            day["day"]: sums[date.fromisoformat(day["day"])] for day in fact
        }
    assert {day["is"] for day in fact} == {"compared"}
    by_publication = types("diff", moment["publication"], "before-v2", "--table", FACT, "--days", str(DAYS))
    back = by_publication["by_table"][FACT]["days"]
    assert [-Decimal(day["change"]) for day in back if day["is"] == "compared"] == [
        Decimal(day["change"]) for day in fact
    ]
    assert started == [], "rows that differ are compared without Spark, wherever a state has them"
    monkeypatch.undo()
    monkeypatch.setenv("BACKFILL_HOME", str(righted.settings.home))
    assert_read_by_every_engine(righted, {"before-v2": frozen})


def test_a_timeline_is_published_as_a_plan_is_and_undone(wrong: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What forward has staged is published as it is, also if the timeline is deleted before it is approved."""
    monkeypatch.setenv("BACKFILL_HOME", str(wrong.settings.home))
    old = contents(wrong)
    before = types("history", FACT)["publications"][0]["publication"]
    types("timeline", "rewind", FACT, "--to", before, "--days", str(DAYS), "--as", "trial")
    types("timeline", "forward", "trial", "--version", "v2")
    tried = held(wrong, "trial")
    assert contents(wrong) == old != old | tried

    with monkeypatch.context() as patch:
        patch.setattr(step_build, "write_chunk", refuse)
        staged = types("timeline", "publish", "trial", "--expect", "rows unchanged")
    assert contents(wrong) == old
    types("timeline", "forward", "trial", "same", "--version", "v2")
    backfill("timeline", "delete", "trial", "--yes")
    for table in ("raw_sales", FACT, "fact_daily_revenue"):
        reclaim(wrong.builder.lake.publisher, table, clock_checked=True)
    assert types("diff", staged["plan"])["tables"] != []
    published = types("approve", staged["plan"], "--yes")
    assert contents(wrong) == old | tried
    assert "nothing to publish" in backfill("timeline", "publish", "same", exit_code=1).output
    types("rollback", published["publication"], "--yes")
    assert contents(wrong) == old


def test_rows_that_arrived_since_come_along_once(righted: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKFILL_HOME", str(righted.settings.home))
    before = types("history", FACT)["publications"][1]["publication"]
    types("timeline", "rewind", FACT, "--to", before, "--as", "again")
    land_late(righted, built=("raw_sales", "bronze_sales"))
    done = types("timeline", "forward", "again", "--version", "v1")
    staged = {step["table"]: step["staged"] for step in done["steps"] if step["staged"]}
    assert staged[FACT] == [str(LATE_DAY)]
    righted.build_all(DAYS, "v1")
    righted.build_reports(DAYS)
    main = contents(righted)
    assert held(righted, "again") == {key: main[key] for key in held(righted, "again")}
