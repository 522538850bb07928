"""Two versions side by side for days: late rows reach both, and the switch there and back computes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, LATE_DAY, TABLES, checksums
from backfill_assets_tests.two_versions import FORMER
from backfill_assets_tests.workshop import Workshop

EARLIER = DAYS.first


@pytest.mark.long
def test_both_are_kept_up_to_date_and_the_switch_there_and_back_is_each_of_them_whole(
    wrong: Workshop, backfill: Backfill, wrong_home: Path, tmp_path: Path, spark: SparkSession
) -> None:
    """Beside another lakehouse from the same files, whose days are of one version alone."""
    only_one = Workshop(shutil.copytree(wrong_home, tmp_path / "only-one"), lambda: spark)
    backfill("timeline", "create", "by-v1", "--version", f"{FACT}=v1")
    backfill("timeline", "keep", "by-v1", "--fresh")
    first = backfill.json("timeline", "forward", "by-v1")
    assert [step["staged"] for step in first["steps"]] == [[]] * len(first["steps"]), "main has all of it"
    wrong.build_all(DAYS, "v2")
    wrong.build_reports(DAYS)
    _rows_arrive(wrong, LATE_DAY, "late")
    _night(wrong)
    assert _versions(wrong) == {"v2"}

    refreshed = backfill.json("timeline", "forward", "by-v1")
    staged = {step["table"]: step["staged"] for step in refreshed["steps"] if step["staged"]}
    assert staged[FACT] == [str(LATE_DAY)]
    assert staged.keys() == set(TABLES), "its week and its month too"
    of_second = checksums(wrong)

    there = _switch(wrong, backfill, "by-v1", "v1")
    _rows_arrive(only_one, LATE_DAY, "late")
    _build(only_one, "v1")
    assert checksums(wrong) == checksums(only_one) != of_second
    assert _versions(wrong) == {"v1"}

    _rows_arrive(wrong, EARLIER, "later")
    _night(wrong)
    assert _versions(wrong) == {"v1"}, "each day keeps the version that it was published with"
    for name in ("by-v1", FORMER):
        backfill("timeline", "forward", name)
    of_first = checksums(wrong)

    back = _switch(wrong, backfill, FORMER, "v2")
    _rows_arrive(only_one, EARLIER, "later")
    _build(only_one, "v2")
    assert checksums(wrong) == checksums(only_one) != of_first
    assert there["publication"] != back["publication"]

    undone = backfill.json("rollback", back["publication"], "--yes")
    assert checksums(wrong) == of_first and _current(wrong) == "v1"
    backfill("rollback", undone["publication"], "--yes")
    assert checksums(wrong) == checksums(only_one) and _current(wrong) == "v2"


def _switch(workshop: Workshop, backfill: Backfill, name: str, version: str) -> Any:
    sessions = workshop.sessions
    done = backfill.json("timeline", "publish", name, "--as-current", "--yes")
    assert workshop.sessions == sessions, "nothing is computed"
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
    workshop.build_reports(DAYS)


def _versions(workshop: Workshop) -> set[str]:
    return {state.content.code_version for state in workshop.states(FACT).values() if state.content}
