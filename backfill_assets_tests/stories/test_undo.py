"""A campaign is undone: in a second where nothing moved, by the old logic where rows came since; and brought back."""

from __future__ import annotations

from backfill_assets.campaign.cutover import cut_over
from backfill_assets_tests.stories.conftest import TypeOn
from backfill_assets_tests.stories.staged_campaign import (
    CAMPAIGN,
    DAYS,
    FACT,
    PERIODS,
    PLAN,
    RUN,
    changed,
    checksums,
    land_late,
    steps,
)
from backfill_assets_tests.workshop import Workshop


def test_undone_brought_back_and_undone_with_the_rows_that_came_since(staged: Workshop, type_on: TypeOn) -> None:
    """No day moved: no Spark, and readers see the old tables. Then a late row comes and is built by the new logic."""
    backfill, old = type_on(staged), checksums(staged)
    cut_over(staged.builder.lake, CAMPAIGN, steps(), RUN, staged.messages.append)
    new = checksums(staged)

    plan = backfill.json("rollback", PLAN, "--dry-run")
    assert {day["what"] for day in plan["days"]} == {"put back"} and plan["seconds"] == 0
    assert checksums(staged) == new
    undone = backfill.json("rollback", CAMPAIGN, "--yes")
    assert checksums(staged) == old
    assert f"{undone['publication']} did it" in backfill("rollback", CAMPAIGN, "--yes", exit_code=1).stderr
    backfill("rollback", undone["publication"], "--yes")
    assert checksums(staged) == new
    assert staged.sessions == 0

    land_late(staged)
    staged.build_all(DAYS, "v2")

    plan = backfill.json("rollback", CAMPAIGN, "--dry-run")
    staged_again = [row for row in plan["days"] if row["what"] == "stage again"]
    again = {row["table"]: row for row in staged_again}
    assert {table: row["which_days"] for table, row in again.items()} == {t: [str(day)] for t, day in PERIODS.items()}
    assert again[FACT]["by"] == "v1" and plan["seconds"] > 0
    undone = backfill.json("rollback", PLAN, "--yes")
    assert len(staged.read(FACT)) == len(staged.read("bronze_sales"))
    assert changed(old, checksums(staged)) == {table: {day} for table, day in PERIODS.items()}
    assert {state.publication for state in staged.states("report_store_ranking").values()} == {undone["publication"]}
    sessions = staged.sessions
    staged.build_all(DAYS, "v1")
    staged.build_reports(DAYS)
    assert staged.sessions == sessions, "everything is just what the old logic gives of the rows that there are"
