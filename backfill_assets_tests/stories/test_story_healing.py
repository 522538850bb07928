"""``make story-healing``: faults of each kind on real sales, in Dagster's own processes, alone and several at once.

Each test prints a row for each fault: how long it took until it was noticed, built again and over, what people were
told of it, and whether tables hold afterwards what plain Python makes of the landed files.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, date, datetime, timedelta
from datetime import time as dt_time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import ConnectServer, connect_server, start_connect_server
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.automation import SensorBook
from backfill_assets.upkeep.incidents import Incident
from backfill_assets_tests.conftest import SMALL_SPARK
from backfill_assets_tests.stories import faults_of_files as disk
from backfill_assets_tests.stories import faults_of_sources as source
from backfill_assets_tests.stories.healed_lakehouse import Fault, Healing, healing, land_nothing, yesterday
from backfill_assets_tests.stories.real_lines import deliver, land_sold, withhold
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-03-02..2017-03-08")
STORES = (356, 296, 343)
D2, D3, D4, D5, D6, D7, D8 = DAYS
WEEK = date(2017, 2, 27)
FACT, REVENUE, DEPARTMENTS = "fact_sales_transactions", "fact_daily_revenue", "report_department_revenue"
PERIODS = ("report_store_ranking", "report_monthly_close")
LATE = 40
HISTORY, SOUND = map(DayRange.parse, ("2017-02-05..2017-03-11", "2017-03-12..2017-03-25"))
"""Five weeks from which is learned what is usual, and two that land day by day."""
Play = Callable[..., AbstractContextManager[Healing]]
pytestmark = [pytest.mark.long, pytest.mark.timeout(3000)]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, connect_spark: SparkSession) -> Path:
    """A week of three stores; a few lines of each day have not landed."""
    place = tmp_path_factory.mktemp("small")
    workshop = Workshop(place / "home", lambda: connect_spark)
    land_sold(DAYS, workshop.settings.landing, STORES)
    for day in DAYS:
        deliver(place / "late", day, "late", withhold(workshop.settings.landing, day, LATE))
    (place / "to-land").mkdir()
    workshop.build_all(DAYS)
    workshop.build_reports(DAYS)
    return place


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, connect_spark: SparkSession) -> Path:
    """All stores, one line of each receipt; only ``HISTORY`` has landed."""
    place = tmp_path_factory.mktemp("large")
    workshop = Workshop(place / "home", lambda: connect_spark)
    land_sold(DayRange(HISTORY.first, SOUND.last), workshop.settings.landing, of_each_receipt=1)
    for folder in workshop.settings.landing.glob("*/*"):
        if date.fromisoformat(folder.name) > HISTORY.last:
            there = place / "to-land" / folder.parent.name / folder.name
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(folder, there)
    workshop.build_all(HISTORY)
    workshop.build_reports(HISTORY)
    return place


@pytest.fixture
def play(
    tmp_path: Path,
    connect_server_for_tests: ConnectServer,
    connect_spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> Play:
    return partial(healing, tmp_path / "home", url=connect_server_for_tests.url, spark=connect_spark, patch=monkeypatch)


def late(healing: Healing, day: date) -> None:
    """What was withheld comes."""
    withheld = healing.to_land.parent / "late" / "sales" / str(day) / "late.jsonl.gz"
    shutil.copy(withheld, healing.landing / "sales" / str(day) / "late.jsonl.gz")


def test_fourteen_sound_days_tell_nothing(large: Path, play: Play) -> None:
    with play(sound=large) as healing:
        began = datetime.now(UTC)
        for day in SOUND:
            healing.land(day)
            healing.daily_job(day)
        healing.settles()
        healing.watchdogs_read(*SOUND)
        healing.settles()
        assert healing.differences() == []
        assert healing.notices() == []
        # Weeks and months that a new day belongs to are built again, which is listed.
        listed = {(each.table, each.cause) for each in healing.incidents(began)}
        assert listed <= {(table, Cause.INPUT) for table in PERIODS}


def test_files_go_wrong(small: Path, play: Play) -> None:
    with play(sound=small) as healing:
        lake = healing.lakehouse
        healing.play(
            Fault("foreign append", lambda: disk.append(lake, FACT, D2), FACT, Cause.FOREIGN_WRITE),
            Fault("lost file", lambda: disk.lose(lake, REVENUE, D8), REVENUE, Cause.LOST_FILES),
            Fault("lost file of raw", lambda: disk.lose(lake, "raw_sales", D5), "raw_sales", Cause.LOST_RAW),
            Fault(
                "foreign write in a report",
                lambda: disk.update(lake, DEPARTMENTS, D7, "department", "quantity"),
                DEPARTMENTS,
                Cause.FOREIGN_WRITE,
            ),
            read=DAYS,
        )

        healing.play(
            Fault(
                "foreign delete",
                lambda: disk.delete(lake, "bronze_sales", D3, "transaction_id"),
                "bronze_sales",
                Cause.FOREIGN_WRITE,
            ),
            Fault(
                "cut file",
                lambda: disk.cut(lake, "report_store_ranking", WEEK),
                "report_store_ranking",
                Cause.LOST_FILES,
            ),
            Fault("damaged file", lambda: disk.damage(lake, FACT, D7), FACT, Cause.LOST_FILES),
            read=[D7, WEEK],
        )


def test_sources_send_too_little_and_too_much(large: Path, play: Play) -> None:
    with play(sound=large) as healing:
        landing, (half, empty, doubled, *_) = healing.landing, SOUND

        def lands(day: date, rows: Callable[[list[source.Row]], list[source.Row]]) -> Callable[[], None]:
            def arrives() -> None:
                healing.land(day)
                whole[day] = source.sent(landing, day)
                source.replace(landing, day, rows(whole[day]))
                healing.daily_job(day)

            return arrives

        def puts_right(day: date) -> Callable[[Incident], None]:
            def sends(_: Incident) -> None:
                source.replace(landing, day, whole[day])
                healing.backfill("raw", "refresh", "raw_sales", day)

            return sends

        whole: dict[date, list[source.Row]] = {}
        unusual = partial(Fault, table="raw_sales", cause=Cause.UNUSUAL)
        healing.play(
            unusual(
                "half a day",
                lands(half, lambda rows: rows[: len(rows) // 2]),
                first=half,
                person=lambda _: source.add(landing, half, "rest", whole[half][len(whole[half]) // 2 :]),
            ),
            unusual(
                "an empty day",
                lands(empty, lambda _: []),
                first=empty,
                person=lambda _: source.add(landing, empty, "rest", whole[empty]),
            ),
            Fault(
                "a doubled day",
                lands(doubled, lambda rows: rows * 2),
                "bronze_sales",
                Cause.HELD_BACK,
                first=doubled,
                person=puts_right(doubled),
            ),
        )


def test_sources_send_something_else(large: Path, play: Play) -> None:
    with play(sound=large) as healing:
        landing, on_time, (storm, cents, typed, *_) = healing.landing, HISTORY.last, SOUND

        def replaced() -> None:
            rows = source.sent(landing, on_time)
            wrong = source.changed(rows[:30], quantity=lambda _: "7")
            source.replace(landing, on_time, [*wrong, *rows[30:]])
            healing.backfill("raw", "refresh", "raw_sales", on_time)

        healing.play(Fault("a corrected file", replaced, "bronze_sales", Cause.CORRECTED, 0))

        tiers = [row | {"loyalty_tier": "gold"} for row in source.others(source.sent(landing, on_time)[:5])]
        healing.play(
            Fault(
                "a new field",
                lambda: source.add(landing, on_time, "tier", tiers),
                "raw_sales",
                Cause.DRIFT,
                person=healing.closes("declared with the next version"),
            )
        )

        right: dict[date, list[source.Row]] = {}

        def lands(day: date, **changes: Callable[[source.Row], str]) -> Callable[[], None]:
            def arrives() -> None:
                healing.land(day)
                right[day] = source.sent(landing, day)
                source.replace(landing, day, source.changed(right[day], **changes))
                healing.daily_job(day)

            return arrives

        def second_file(incident: Incident) -> None:
            """The right lines come beside the wrong ones: these stay rejected, and a person lets the day through."""
            source.add(landing, storm, "right", source.newer(right[storm]))
            healing.settles("the second file")
            healing.backfill("raw", "release", "bronze_sales", storm, "the source has sent the right lines")
            healing.closes("the source has sent the right lines")(incident)

        def sends_anew(day: date) -> Callable[[Incident], None]:
            def sends(_: Incident) -> None:
                source.replace(landing, day, right[day])
                healing.backfill("raw", "refresh", "raw_sales", day)

            return sends

        healing.play(
            Fault(
                "EUR 1.59",
                lands(storm, sales_value=lambda _: "EUR 1.59"),
                "raw_sales",
                Cause.DRIFT,
                first=storm,
                person=second_file,
            ),
            Fault(
                "another unit",
                lands(cents, sales_value=lambda row: row["sales_value"].replace(".", "")),
                FACT,
                Cause.UNUSUAL,
                person=sends_anew(cents),
            ),
            Fault(
                "another type",
                lands(typed, quantity=lambda _: "many"),
                "raw_sales",
                Cause.DRIFT,
                first=typed,
                person=sends_anew(typed),
            ),
        )


def test_work_is_killed(small: Path, play: Play, tmp_path: Path) -> None:
    with (
        connect_server(Settings.at(tmp_path / "spark"), options=SMALL_SPARK) as server,
        ExitStack() as later,
        play(sound=small, url=server.url) as healing,
    ):

        def worker() -> None:
            healing.dagster.let_a_run_die(f"staged {FACT}")
            late(healing, D3)

        def code_server() -> None:
            wait_for_staging(healing, lambda: late(healing, D4))
            healing.dagster.kill("code")
            healing.dagster.start()

        def spark_server() -> None:
            wait_for_staging(healing, lambda: late(healing, D5))
            server.process.kill()
            server.process.wait()
            settings = Settings.at(tmp_path / "spark")
            later.callback(start_connect_server(settings, server.port, SMALL_SPARK).stop)

        listed = partial(Fault, table="bronze_sales", cause=Cause.LATE, tellings=0)
        healing.play(listed("a killed worker", worker))
        assert healing.dagster.has_died()
        healing.play(listed("a killed code server", code_server))
        healing.play(listed("a killed Spark server", spark_server))


def wait_for_staging(healing: Healing, fault: Callable[[], object]) -> None:
    def staged() -> set[Path]:
        return set(healing.lakehouse.glob("bronze_sales/_timelines/*"))

    before = staged()
    fault()
    healing.wait_for(lambda: staged() - before, "staging")


def test_people_are_asked(small: Path, play: Play) -> None:
    with play(sound=small, repairs=",days=12") as healing:
        lake, landing = healing.lakehouse, healing.landing

        def mends(incident: Incident) -> None:
            assert incident.next_step == f"backfill maintain --mend {REVENUE}"
            healing.backfill("maintain", "--mend", REVENUE, "--yes")

        missed = yesterday() - timedelta(days=1)

        def lands_daily() -> None:
            """At five o'clock for weeks; the day before yesterday nothing came."""
            for day in DayRange(missed - timedelta(days=40), missed - timedelta(days=1)):
                came = datetime.combine(day, dt_time(5), UTC) + timedelta(days=1)
                land_nothing(landing / "sales", day, came)

        healing.play(
            Fault("a lost commit", lambda: disk.lose_a_commit(lake, REVENUE), REVENUE, Cause.UNREADABLE, person=mends),
            Fault("a foreign write beside it", lambda: disk.append(lake, FACT, D2), FACT, Cause.FOREIGN_WRITE),
            Fault(
                "a day that never landed",
                lands_daily,
                "raw_sales",
                Cause.OVERDUE,
                person=lambda _: land_nothing(landing / "sales", missed),
            ),
        )
        assert not list(SensorBook(healing.workshop.builder.lake.storage).troubles(datetime.now(UTC)))

        def approves(incident: Incident) -> None:
            """At four o'clock it still waits."""
            healing.wait_for(lambda: healing.book.get(incident.id).plan, "its plan")
            healing.watchdogs_read(*DAYS)
            time.sleep(20)
            plan = healing.book.get(incident.id).plan
            healing.backfill("run", plan)
            healing.backfill("approve", plan, "--yes")

        healing.play(
            Fault(
                "a foreign write awaits approval",
                lambda: disk.append(lake, FACT, *DAYS),
                FACT,
                Cause.FOREIGN_WRITE,
                person=approves,
            )
        )


def test_an_undo_ends_where_its_source_corrects_lines(small: Path, play: Play) -> None:
    with play(sound=small) as healing:
        landing = healing.landing

        def undone() -> None:
            """A person has published the day by older logic, and puts it back; then the source corrects lines."""
            healing.backfill("run", FACT, "--days", D6, "--version", "v1")
            healing.backfill("rollback", healing.workshop.states(FACT)[D6].publication, "--yes")
            healing.settles()
            revalued = source.changed(source.newer(source.sent(landing, D6)[:50]), sales_value=lambda _: "2.00")
            source.add(landing, D6, "corrected", revalued)

        healing.play(Fault("an undo, then corrected lines", undone, "bronze_sales", Cause.LATE, 0))
