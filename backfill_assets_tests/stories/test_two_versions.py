"""Two versions side by side for days: late rows reach both, and the switch there and back computes nothing."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.cli import foreground
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets_tests.cli.command import types
from backfill_assets_tests.played_lake import no_spark
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, LATE_DAY, REPORTS
from backfill_assets_tests.two_versions import FORMER
from backfill_assets_tests.workshop import Workshop

EARLIER = DAYS.first
TABLES = (FACT, *REPORTS)


@pytest.mark.long
def test_both_are_kept_up_to_date_and_the_switch_there_and_back_is_each_of_them_whole(
    wrong: Workshop, wrong_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_one = Workshop(shutil.copytree(wrong_home, tmp_path / "only-one"), wrong.builder.lake.spark)
    monkeypatch.setenv("BACKFILL_HOME", str(wrong.settings.home))
    types("timeline", "create", "by-v1", "--version", f"{FACT}=v1")
    types("timeline", "keep", "by-v1", "--fresh")
    first = types("timeline", "forward", "by-v1")
    assert [step["staged"] for step in first["steps"]] == [[]] * len(first["steps"]), "main has all of it"
    wrong.build_all(DAYS, "v2")
    wrong.build_reports(DAYS)
    _rows_arrive(wrong, LATE_DAY, "late")
    _night(wrong)
    assert _versions(wrong) == {"v2"}

    refreshed = types("timeline", "forward", "by-v1")
    staged = {step["table"]: step["staged"] for step in refreshed["steps"] if step["staged"]}
    assert staged[FACT] == [str(LATE_DAY)]
    assert staged.keys() == set(TABLES), "its week and its month too"
    of_second = contents(wrong)

    there = _switch(wrong, "by-v1", "v1", monkeypatch)
    _rows_arrive(only_one, LATE_DAY, "late")
    _build(only_one, "v1")
    assert contents(wrong) == contents(only_one) != of_second
    assert _versions(wrong) == {"v1"}

    _rows_arrive(wrong, EARLIER, "later")
    _night(wrong)
    assert _versions(wrong) == {"v1"}, "each day keeps the version that it was published with"
    for name in ("by-v1", FORMER):
        types("timeline", "forward", name)
    of_first = contents(wrong)

    back = _switch(wrong, FORMER, "v2", monkeypatch)
    _rows_arrive(only_one, EARLIER, "later")
    _build(only_one, "v2")
    assert contents(wrong) == contents(only_one) != of_first
    assert there["publication"] != back["publication"]

    undone = types("rollback", back["publication"], "--yes")
    assert contents(wrong) == of_first and _current(wrong) == "v1"
    types("rollback", undone["publication"], "--yes")
    assert contents(wrong) == contents(only_one) and _current(wrong) == "v2"


def _switch(workshop: Workshop, name: str, version: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Without Spark, and in seconds at most on a machine that does much else."""
    with monkeypatch.context() as patch:
        patch.setattr(foreground, "foreground_spark", no_spark)
        began = time.monotonic()
        done = types("timeline", "publish", name, "--as-current", "--yes")
        days = sum(row["days"] for row in done["changes"])
        print(f"switched {days} days to {version} in {time.monotonic() - began:.2f} s")
    assert _current(workshop) == version
    return done


def _current(workshop: Workshop) -> str:
    return workshop.builder.lake.switches().get(FACT, "v2")


def _rows_arrive(workshop: Workshop, day: object, name: str) -> None:
    values = {"transaction_timestamp": f"{day}T10:00:00Z"}
    land_lines(workshop.settings.landing, DAYS.last, name, 2, values, first_basket=900_000 + len(name))
    workshop.build("raw_sales", DAYS)


def _night(workshop: Workshop) -> None:
    _build(workshop, AS_PUBLISHED)


def _build(workshop: Workshop, version: str) -> None:
    workshop.build("bronze_sales", DAYS)
    workshop.build(FACT, DAYS, version)
    workshop.build("fact_daily_revenue", DAYS)
    workshop.build("report_department_revenue", DAYS)
    workshop.build_reports(DAYS)


def _versions(workshop: Workshop) -> set[str]:
    return {state.content.code_version for state in workshop.states(FACT).values() if state.content}


def contents(workshop: Workshop) -> dict[str, object]:
    found = workshop.contents()
    return {table: found[table] for table in TABLES}
