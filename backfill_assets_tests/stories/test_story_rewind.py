"""Rewind and forward on real days: wrong logic went live, and is put right on timelines before anyone reads it.

``make story-rewind`` plays it on four days of one store in ten, and on 60 days of all stores; ``test_rewind.py`` has
each promise on made-up lines.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from backfill_assets.cli import main
from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.plan.records import days_of
from backfill_assets.timeline.opened import open_timeline
from backfill_assets_tests import oracle
from backfill_assets_tests.cli.command import work_with
from backfill_assets_tests.stories.against_pandas import assert_published
from backfill_assets_tests.stories.real_lines import deliver, land_sold, withhold, without
from backfill_assets_tests.stories.staged_campaign import FACT, TABLES
from backfill_assets_tests.stories.test_story_fx import compiled
from backfill_assets_tests.stories.wrong_on_mondays import DRAFT, declare_draft
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Contents = Mapping[tuple[str, str], object]


@dataclass(frozen=True)
class Size:
    """How much of the real data a story is played on."""

    days: DayRange
    wrong: DayRange
    """The days that the wrong logic has published."""
    one_store_in: int
    late_day: date
    """A working day, but no Monday: on these the versions differ."""
    late_lines: int


SMALL = Size(
    DayRange.parse("2017-03-05..2017-03-08"), DayRange.parse("2017-03-06..2017-03-08"), 10, date(2017, 3, 7), 8
)
WHOLE = Size(
    DayRange.parse("2017-03-01..2017-04-29"), DayRange.parse("2017-03-20..2017-04-29"), 1, date(2017, 3, 21), 200
)


@dataclass
class RewindStory:
    """The lakehouse in which the wrong logic went live, and the lines that have not arrived yet."""

    size: Size
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
        result = CliRunner().invoke(main, [*words, "--json"])
        assert result.exit_code == 0, result.output
        print(f"  {time.monotonic() - began:.1f} s")
        return json.loads(result.stdout)

    def arrive(self) -> None:
        """What a nightly run does with the late lines, of raw and bronze: facts are not built yet."""
        arrival = date.fromordinal(self.size.days.last.toordinal() + 1)
        deliver(self.workshop.settings.landing, arrival, "late", self.late)
        self.workshop.build("raw_sales", [arrival])
        self.workshop.build("bronze_sales", [self.size.late_day])

    def main(self) -> Contents:
        return {
            (table, str(day)): what for table, days in self.workshop.contents().items() for day, what in days.items()
        }

    def opened(self, name: str) -> Contents:
        """Rows and checksums of all days of the tables, as the timeline has them."""
        opened = open_timeline(self.workshop.builder.lake.storage, name)
        return {
            (table, str(day)): (held.content.rows, held.content.checksum)
            for table in TABLES
            for day, held in opened.held(table).items()
            if held.content
        }


def build(workshop: Workshop, size: Size, *, wrong: bool) -> None:
    """All days by the right logic; then, if asked for, the last ones by the wrong one, with all that reads them."""
    workshop.build_all(size.days, "v2")
    workshop.build_reports(size.days)
    if wrong:
        workshop.build(FACT, size.wrong, "v1")
        for table in TABLES[1:]:
            workshop.build(table, CATALOG.step(table).cadence.starts(size.wrong))


def begin(home: Path, size: Size, spark: SparkSession) -> RewindStory:
    workshop = Workshop(home, lambda: spark)
    lines = oracle.transactions(size.days.first, size.days.last, "v2")
    stores = frozenset(sorted(lines["store_id"].unique().tolist())[:: size.one_store_in])
    land_sold(size.days, workshop.settings.landing, stores)
    late = withhold(workshop.settings.landing, size.late_day, size.late_lines)
    build(workshop, size, wrong=True)
    right, wrong = (
        each[each["store_id"].isin(stores)]
        for each in (lines, oracle.transactions(size.days.first, size.days.last, "v1"))
    )
    is_wrong = set(size.wrong)
    as_published = pd.concat([right[~right["day"].isin(is_wrong)], wrong[wrong["day"].isin(is_wrong)]])
    return RewindStory(size, workshop, right, as_published, late)


@pytest.fixture
def story(
    request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RewindStory]:
    declare_draft(monkeypatch)
    with compiled(spark):
        found = begin(tmp_path / "home", request.param, spark)
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
    arrival = date.fromordinal(story.size.days.last.toordinal() + 1)
    workshop.build("raw_sales", [*story.size.days, arrival])
    build(workshop, story.size, wrong=False)
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
@pytest.mark.parametrize(
    "story", [pytest.param(SMALL, id="four days"), pytest.param(WHOLE, id="sixty days")], indirect=True
)
@pytest.mark.timeout(3600)
def test_wrong_logic_is_put_right_on_timelines_and_published(
    story: RewindStory, tmp_path: Path, spark: SparkSession
) -> None:
    """Back to before it, forward twice: the first attempt is still wrong on one point. Then published, and undone."""
    wrong = story.main()
    (moment, *_) = [each for each in story.types("timeline", "rewind", FACT)["moments"] if _versions(each) == ["v1"]]
    made = story.types("timeline", "rewind", FACT, "--to", f"{moment['publication']}^", "--as", "before-v1")
    assert made["days"] >= len(story.size.wrong)
    original = story.opened("before-v1")
    story.arrive()

    story.types("timeline", "forward", "before-v1", "--version", DRAFT, "--as", "first-try")
    against_main = changed_days(story.types("diff", "main", "first-try", "--table", FACT))
    assert story.size.late_day in against_main
    assert not {day for day in against_main if day.weekday() == 0}, "still wrong on Mondays: nothing changes there"

    story.types("timeline", "forward", "before-v1", "--version", "v2", "--as", "second-try")
    between = changed_days(story.types("diff", "first-try", "second-try", "--table", FACT))
    assert between and {day.weekday() for day in between} == {0}, "just the point that was wrong"
    arrived = changed_days(story.types("diff", "before-v1", "second-try", "--table", FACT))
    assert arrived == {story.size.late_day}, "by the right logic only the day differs that rows have arrived for"
    assert story.opened("before-v1") == original
    assert {key: story.main()[key] for key in wrong if key[0] in TABLES} == {
        key: what for key, what in wrong.items() if key[0] in TABLES
    }, "what is published has not changed"

    plan = story.types("timeline", "publish", "second-try")["plan"]
    published = story.types("approve", plan, "--yes")["publication"]
    right = story.main()
    assert_is_sound(story, sound_home(story, tmp_path / "sound", spark))
    assert story.opened("before-v1") == original
    shown = CliRunner().invoke(main, ["show", FACT, str(story.size.wrong.last), "--on", "before-v1"])
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
