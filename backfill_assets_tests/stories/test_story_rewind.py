"""Rewind and forward on real days: wrong logic went live, and is put right on timelines before anyone reads it.

``make story-rewind`` plays it on 60 days of all stores; ``test_rewind.py`` has
each promise on made-up lines.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.plan.records import days_of
from backfill_assets.timeline.opened import open_timeline
from backfill_assets_tests import oracle
from backfill_assets_tests.cli.command import backfill, types, work_with
from backfill_assets_tests.stories.against_pandas import assert_published
from backfill_assets_tests.stories.real_lines import deliver, land_sold, withhold, without
from backfill_assets_tests.stories.staged_campaign import FACT, TABLES, Contents, contents
from backfill_assets_tests.stories.test_story_fx import compiled
from backfill_assets_tests.stories.wrong_on_mondays import DRAFT, declare_draft
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS, WRONG = DayRange.parse("2017-03-01..2017-04-29"), DayRange.parse("2017-03-20..2017-04-29")
"""All days, and those that the wrong logic has published."""
LATE_DAY, LATE_LINES = date(2017, 3, 21), 200
"""A working day, but no Monday: on these the versions differ."""
ARRIVAL = date(2017, 4, 30)


@dataclass
class RewindStory:
    """The lakehouse in which the wrong logic went live, and the lines that have not arrived yet."""

    workshop: Workshop
    lines: pd.DataFrame
    """What pandas makes of all lines by the right logic."""
    wrong_lines: pd.DataFrame
    """The same by the wrong one on the days that it has published."""
    late: list[str]

    def types(self, *words: str) -> Any:
        """What a person types, in this process; the terminal of `make story-rewind` shows it."""
        print(f"\n$ backfill {' '.join(words)}")
        began = time.monotonic()
        answer = types(*words)
        print(f"  {time.monotonic() - began:.1f} s")
        return answer

    def arrive(self) -> None:
        """What a nightly run does with the late lines, of raw and bronze: facts are not built yet."""
        deliver(self.workshop.settings.landing, ARRIVAL, "late", self.late)
        self.workshop.build("raw_sales", [ARRIVAL])
        self.workshop.build("bronze_sales", [LATE_DAY])

    def main(self) -> Contents:
        return contents(self.workshop)

    def opened(self, name: str) -> Contents:
        """Rows and checksums of all days of the tables, as the timeline has them."""
        opened = open_timeline(self.workshop.builder.lake.storage, name)
        return {
            (table, str(day)): (held.content.rows, held.content.checksum)
            for table in TABLES
            for day, held in opened.held(table).items()
            if held.content
        }


def build(workshop: Workshop, *, wrong: bool) -> None:
    """All days by the right logic; then, if asked for, the last ones by the wrong one, with all that reads them."""
    workshop.build_all(DAYS, "v2")
    workshop.build_reports(DAYS)
    if wrong:
        workshop.build(FACT, WRONG, "v1")
        for table in TABLES[1:]:
            workshop.build(table, CATALOG.step(table).cadence.starts(WRONG))


def begin(home: Path, spark: SparkSession) -> RewindStory:
    workshop = Workshop(home, lambda: spark)
    lines = oracle.transactions(DAYS.first, DAYS.last, "v2")
    land_sold(DAYS, workshop.settings.landing)
    late = withhold(workshop.settings.landing, LATE_DAY, LATE_LINES)
    build(workshop, wrong=True)
    wrong, is_wrong = oracle.transactions(DAYS.first, DAYS.last, "v1"), set(WRONG)
    as_published = pd.concat([lines[~lines["day"].isin(is_wrong)], wrong[wrong["day"].isin(is_wrong)]])
    return RewindStory(workshop, lines, as_published, late)


@pytest.fixture
def story(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[RewindStory]:
    declare_draft(monkeypatch)
    with compiled(spark):
        found = begin(tmp_path / "home", spark)
        monkeypatch.setenv("BACKFILL_HOME", str(tmp_path / "home"))
        work_with(monkeypatch, found.workshop)
        yield found


def rows_of(home: Path, table: str) -> pa.Table:
    """Every row, in one order."""
    found = DeltaTable(str(home / "lakehouse" / table)).to_pyarrow_table()
    return found.sort_by([(name, "ascending") for name in found.column_names])


def sound_home(story: RewindStory, home: Path, spark: SparkSession) -> Path:
    """Another lakehouse, of the same landed files, in which the wrong logic never was."""
    workshop = Workshop(home, lambda: spark)
    shutil.copytree(story.workshop.settings.landing, workshop.settings.landing)
    workshop.build("raw_sales", [*DAYS, ARRIVAL])
    build(workshop, wrong=False)
    return home


def changed_days(difference: Any) -> set[date]:
    """The days on which a row of the fact is another one."""
    (fact,) = (row for row in difference["tables"] if row["table"] == FACT)
    return {*days_of(fact["which_days"])}


def _versions(moment: dict[str, Any]) -> list[str] | None:
    """By which the fact's days came that a moment brought."""
    found: list[str] | None = (
        moment["changed"].get(FACT, {}).get("versions") if moment["kind"] != "failed gate" else None
    )
    return found


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_wrong_logic_is_put_right_on_timelines_and_published(
    story: RewindStory, tmp_path: Path, spark: SparkSession
) -> None:
    """Back to before it, forward twice: the first attempt is still wrong on one point. Then published, and undone."""
    wrong = story.main()
    (moment, *_) = [each for each in story.types("timeline", "rewind", FACT)["moments"] if _versions(each) == ["v1"]]
    made = story.types("timeline", "rewind", FACT, "--to", f"{moment['publication']}^", "--as", "before-v1")
    assert made["days"] >= len(WRONG)
    original = story.opened("before-v1")
    story.arrive()

    story.types("timeline", "forward", "before-v1", "first-try", "--version", DRAFT)
    against_main = changed_days(story.types("diff", "main", "first-try", "--table", FACT))
    assert LATE_DAY in against_main
    assert not {day for day in against_main if day.weekday() == 0}, "still wrong on Mondays: nothing changes there"

    story.types("timeline", "forward", "before-v1", "second-try", "--version", "v2")
    between = changed_days(story.types("diff", "first-try", "second-try", "--table", FACT))
    assert between and {day.weekday() for day in between} == {0}, "just the point that was wrong"
    arrived = changed_days(story.types("diff", "before-v1", "second-try", "--table", FACT))
    assert arrived == {LATE_DAY}, "by the right logic only the day differs that rows have arrived for"
    assert story.opened("before-v1") == original
    assert {key: story.main()[key] for key in wrong if key[0] in TABLES} == {
        key: what for key, what in wrong.items() if key[0] in TABLES
    }, "what is published has not changed"

    plan = story.types("timeline", "publish", "second-try")["plan"]
    published = story.types("approve", plan, "--yes")["publication"]
    right = story.main()
    assert_is_sound(story, sound_home(story, tmp_path / "sound", spark))
    assert story.opened("before-v1") == original
    shown = backfill("show", FACT, WRONG.last, "--on", "before-v1")
    assert shown.exit_code == 0 and "amount_eur" in shown.output

    undone = story.types("rollback", published, "--yes")["publication"]
    assert_published(story.workshop, story.wrong_lines)
    story.types("rollback", undone, "--yes")
    assert story.main() == right


def assert_is_sound(story: RewindStory, sound: Path) -> None:
    """Row for row what never was wrong has, and what pandas makes of the lines; each line that was landed, once."""
    home = story.workshop.settings.home
    for table in TABLES:
        assert rows_of(home, table).equals(rows_of(sound, table)), f"{table} is not what it is where it never was wrong"
    assert_published(story.workshop, story.lines)
    raw, facts = story.workshop.read("raw_sales"), story.workshop.read(FACT)
    assert len(raw) == len(facts) == len(story.lines) == facts["transaction_id"].nunique()
    assert len(without(story.lines, story.late)) == len(story.lines) - len(story.late)
