"""The mission's case on 90 real days, against what pandas makes of the packages' own files.

The days are built once, by the old logic: nine of a few stores for `make test`, 90 of all stores for `make test-long`.
Some of the newest lines are withheld: they arrive during the story.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.campaign_journal import campaign_of, entries
from backfill_assets.lakehouse.campaign_reports import StagedReport
from backfill_assets.plan.records import days_of
from backfill_assets_tests import oracle
from backfill_assets_tests.cli.command import types, work_with
from backfill_assets_tests.conftest import INTERPRETED
from backfill_assets_tests.stories.against_pandas import assert_published
from backfill_assets_tests.stories.conftest import NINETY_DAYS
from backfill_assets_tests.stories.real_lines import deliver, land_sold, withhold, without
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FACT = "fact_sales_transactions"
REPORTS = ("report_department_revenue", "report_store_ranking", "report_monthly_close")
Completeness = dict[str, set[tuple[int, bool]]]
"""By the first day of a period: how many days of it are published, and whether that is all of them."""
LAST_DAYS = DayRange.parse("2017-05-25..2017-05-29")
"""Thursday to Monday. The first and the last of them get late lines."""
MAY = DayRange.parse("2017-05-01..2017-05-29")
"""All that they reach; it begins on a Monday."""
LATE_LINES = 200
"""Of all stores, on each of the two days."""
ARRIVAL = date(2017, 5, 30)
_GENERATED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


@dataclass(frozen=True)
class Size:
    """How much of the real data is built, and what reports say of the periods that it cuts."""

    days: DayRange
    one_store_in: int
    months: Completeness
    weeks: Completeness
    """Those that are cut; all others are whole."""
    cut: str

    @property
    def late_days(self) -> set[date]:
        """The first and the last of :data:`LAST_DAYS`, of those that are built."""
        return {LAST_DAYS.first, LAST_DAYS.last} & set(self.days)


NINE = Size(
    DayRange.parse("2017-03-27..2017-04-04"),
    20,
    months={"2017-03-01": {(5, False)}, "2017-04-01": {(4, False)}},
    weeks={"2017-04-03": {(2, False)}},
    cut="report_monthly_close 2017-03-01..2017-03-31 is cut: 5 of 31 days",
)
NINETY = Size(
    NINETY_DAYS,
    1,
    months={"2017-03-01": {(31, True)}, "2017-04-01": {(30, True)}, "2017-05-01": {(29, False)}},
    weeks={"2017-02-27": {(5, False)}, "2017-05-29": {(1, False)}},
    cut="report_monthly_close 2017-05-01..2017-05-31 is cut: 29 of 31 days",
)


@dataclass
class Ninety:
    """The lakehouse of the days of a size by the old logic, and the lines that have not arrived yet, by day."""

    workshop: Workshop
    size: Size
    stores: frozenset[int]
    late: dict[date, list[str]]

    def lines_of(self, days: DayRange, version: oracle.Version) -> pd.DataFrame:
        """What pandas makes of all lines of its stores."""
        lines = oracle.transactions(days.first, days.last, version)
        return lines[lines["store_id"].isin(self.stores)]

    def landed(self, lines: pd.DataFrame, *days: date) -> pd.DataFrame:
        """Those of ``lines`` that have landed when the late ones of ``days`` have."""
        return without(lines, [line for day, late in self.late.items() if day not in days for line in late])


def completeness(workshop: Workshop, table: str) -> Completeness:
    """Each row of a period must say the same."""
    rows = workshop.read(table)
    columns = (rows[name].tolist() for name in ("day", "days_published", "complete"))
    found: Completeness = defaultdict(set)
    for day, published, complete in zip(*columns, strict=True):
        found[str(day)].add((published, complete))
    return found


class Story:
    """What a person types, in this process: each command's words go to the terminal that `make story-fx` shows."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        self.notices = workshop.settings.home / "notices.jsonl"

    def types(self, *words: str) -> Any:
        print(f"\n$ backfill {' '.join(words)}")
        found = types(*words)
        text = json.dumps(found, indent=1)
        print(text if len(text) < 1500 else f"{text[:1500]} ...")
        return found

    def told(self) -> list[str]:
        """The deduplication keys of the notices that arrived."""
        lines = self.notices.read_text().splitlines() if self.notices.exists() else []
        return [json.loads(line)["key"] for line in lines]

    def contents_before(self, first: date) -> dict[str, dict[date, object]]:
        found = self.workshop.contents()
        return {table: {day: what for day, what in days.items() if day < first} for table, days in found.items()}

    def arrives(self, day: date, late: list[str]) -> None:
        """What the stream does with each file: take it in, and refine the days that it has lines of."""
        workshop = Workshop(self.workshop.settings.home, self.workshop.builder.lake.spark)
        deliver(workshop.settings.landing, ARRIVAL, f"late-{day}", late)
        workshop.build("raw_sales", [ARRIVAL])
        workshop.build("bronze_sales", [day])

    def catches_up(self, days: DayRange) -> None:
        """The nightly run, for lines that came when all was staged; it finds the other days unchanged."""
        self.workshop.build(FACT, days, "v2")
        for table in ("fact_daily_revenue", *REPORTS):
            self.workshop.build(table, CATALOG.step(table).cadence.starts(days))


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Hundreds of thousands of rows are worth the code that tens of rows are not."""
    for name, value in _GENERATED.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in _GENERATED:
            spark.conf.set(name, INTERPRETED[name])


_OF_ALL = pytest.mark.parametrize("ninety", [pytest.param(NINETY, id="90 days")], indirect=True)


@pytest.fixture(scope="module")
def ninety(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, request: pytest.FixtureRequest) -> Ninety:
    """Every table of the mission, from landed files to the reports; the fact by the previous day's rate."""
    workshop = Workshop(tmp_path_factory.mktemp("ninety") / "home", lambda: spark)
    landing = workshop.settings.landing
    size: Size = request.param
    days = size.days
    every_store = sorted(oracle.transactions(days.first, days.last, "v2")["store_id"].unique().tolist())
    stores = frozenset(every_store[:: size.one_store_in])
    land_sold(days, landing, stores)
    late = {day: withhold(landing, day, LATE_LINES) for day in size.late_days}
    with compiled(spark) if size is NINETY else nullcontext():
        workshop.build_all(days, "v1")
        workshop.build_reports(days)
    return Ninety(workshop, size, stores, late)


@pytest.fixture
def story(ninety: Ninety, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    """The commands work on a copy of the 90 days, with the Spark session of the tests."""
    home = tmp_path / "home"
    shutil.copytree(ninety.workshop.settings.home, home)
    found = Story(Workshop(home, lambda: spark))
    monkeypatch.setenv("BACKFILL_HOME", str(home))
    monkeypatch.setenv("BACKFILL_NOTICES", f"file:{found.notices}")
    work_with(monkeypatch, found.workshop)
    with compiled(spark):
        yield found


@pytest.mark.parametrize(
    "ninety",
    [pytest.param(NINE, id="9 days"), pytest.param(NINETY, id="90 days", marks=pytest.mark.long)],
    indirect=True,
)
def test_real_days_are_what_pandas_makes_of_them(ninety: Ninety) -> None:
    """Every line of the fact and every sum of what is made of it, to the cent; periods that are cut say so."""
    assert_published(ninety.workshop, ninety.landed(ninety.lines_of(ninety.size.days, "v1")))
    assert_cut_periods_say_so(ninety.workshop, ninety.size)


@pytest.mark.long
@_OF_ALL
@pytest.mark.timeout(900)
def test_the_last_days_are_put_right_beside_a_stream_and_put_back(ninety: Ninety, story: Story) -> None:
    """The mission's case on five of the 90 days. Late lines arrive for what is staged, and while it is cut over."""
    workshop, (first, last) = story.workshop, ninety.late
    old, others = ninety.lines_of(MAY, "v1"), story.contents_before(MAY.first)
    new = pd.concat([old[~old["day"].isin(set(LAST_DAYS))], ninety.lines_of(LAST_DAYS, "v2")])

    asked = ("plan", FACT, "--days", str(LAST_DAYS), "--version", "v2", "--expect", "weekends unchanged")
    plan = story.types(*asked)["plan"]
    assert story.types("run", plan, "--waves", "20%,100%")["waits"] == "it waits for approval"
    assert_published(workshop, ninety.landed(old), MAY)
    assert {day.weekday() for day in _changed(story, plan)} == {0, 3, 4}, "Thursday, Friday and Monday"

    story.arrives(first, ninety.late[first])
    stream = threading.Thread(target=story.arrives, args=(last, ninety.late[last]))
    stream.start()
    approved = story.types("approve", plan, "--yes")["publication"]
    stream.join()
    story.catches_up(LAST_DAYS)
    assert_published(workshop, ninety.landed(new, first, last), MAY)

    back = story.types("rollback", plan, "--yes")["publication"]
    assert_published(workshop, ninety.landed(old, first, last), MAY)
    assert story.told().count(approved) == story.told().count(back) == 1
    assert story.contents_before(MAY.first) == others


@_OF_ALL
@pytest.mark.long
@pytest.mark.timeout(1500)
def test_ninety_days_are_planned_shadowed_compared_approved_undone_and_cut_over_again(
    ninety: Ninety, story: Story
) -> None:
    """All of it: in four waves, with every table of all 90 days compared after each turn."""
    workshop = story.workshop
    old, new = (ninety.landed(ninety.lines_of(NINETY_DAYS, version)) for version in ("v1", "v2"))
    bronze = {day: state.publication for day, state in workshop.states("bronze_sales").items()}

    expected = ("--expect", "rows unchanged", "--expect", "weekends unchanged")
    plan = story.types("plan", FACT, "--days", str(NINETY_DAYS), "--version", "v2", *expected)["plan"]
    waits = story.types("run", plan)["waits"]

    assert waits == "it waits for approval"
    journal = entries(workshop.builder.lake.storage, campaign_of(plan))
    waves = [each.reported(StagedReport).days[FACT].staged for each in journal if each.kind == "wave"]
    assert len(waves) == 4 and waves == sorted(waves), "a canary, a pilot, half, all"
    assert_published(workshop, old)

    difference = story.types("status", plan)["difference"]
    print(difference["sentence"])
    assert {each["outcome"] for each in difference["expected"]} == {"met"}
    assert not [day for day in _changed(story, plan) if day.weekday() >= 5], "no rates are published at weekends"

    first = story.types("approve", plan, "--yes")["publication"]
    assert_published(workshop, new)
    assert {day: state.publication for day, state in workshop.states("bronze_sales").items()} == bronze
    assert story.told().count(first) == 1

    back = story.types("rollback", plan, "--yes")["publication"]
    assert_published(workshop, old)

    story.types("run", plan)
    second = story.types("approve", plan, "--yes")["publication"]
    assert_published(workshop, new)
    assert sorted(story.told()) == sorted({*story.told()}), "each notice once"
    assert {first, back, second} <= {*story.told()}


def _changed(story: Story, plan: str) -> list[date]:
    """The days on which a row of the fact is another one."""
    (fact,) = (row for row in story.types("status", plan)["difference"]["tables"] if row["table"] == FACT)
    return days_of(fact["which_days"])


def assert_cut_periods_say_so(workshop: Workshop, size: Size) -> None:
    assert completeness(workshop, "report_monthly_close") == size.months
    weeks = completeness(workshop, "report_store_ranking")
    assert {first: weeks.pop(first) for first in size.weeks} == size.weeks
    assert set().union(*weeks.values()) == {(7, True)}
    assert any(size.cut in message for message in workshop.messages)
