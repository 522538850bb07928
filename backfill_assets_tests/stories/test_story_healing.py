"""``make story-healing``: faults of each kind on real data, in Dagster's own processes, put right without a hand.

The watchdogs' schedule is due each minute here; all else is as people have it. It prints how long each fault took until
it was noticed, built again and proven, how many days changed, and by how many backfills.
"""

from __future__ import annotations

import gzip
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.days import DayRange
from backfill_assets.spark.connect_server import ConnectServer
from backfill_assets.upkeep.diagnosis import Cause
from backfill_assets.upkeep.incidents import Incident, IncidentBook
from backfill_assets_tests.stories.real_dagster import RealDagster
from backfill_assets_tests.stories.real_lines import deliver, land_sold, withhold
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-03-02..2017-03-08")
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
LATE, BROKEN, HELD = 40, 0.3, "rejected"


@dataclass
class Healing:
    """A lakehouse in which all is sound, and the processes that keep it so."""

    workshop: Workshop
    dagster: RealDagster
    instance: dg.DagsterInstance
    withheld: list[str]
    report: list[str] = field(default_factory=list)

    @property
    def landing(self) -> Path:
        return self.workshop.settings.landing

    @property
    def book(self) -> IncidentBook:
        return IncidentBook(self.workshop.builder.lake.storage)

    def incidents(self, since: datetime) -> list[Incident]:
        return [each for each in (*self.book.open(), *self.book.closed_since(since)) if each.opened >= since]

    def wait_for(self, what: Callable[[], object], named: str) -> None:
        self.dagster.wait_for(what, named)

    def goes_wrong(self, name: str, cause: Cause, fault: Callable[[], object], *, repaired: bool = True) -> Incident:
        """``fault`` happens; what comes of it is waited for and told."""
        since, began = datetime.now(UTC), time.monotonic()
        before = self.workshop.contents()
        fault()

        def over() -> list[Incident]:
            found = [each for each in self.incidents(since) if each.cause is cause]
            return [each for each in found if each.state == ("closed" if repaired else "person")]

        self.wait_for(over, f"{name}: {cause}")
        (incident,) = over()
        took = time.monotonic() - began
        backfills = len(incident.attempts)
        changed = [
            f"{table} {day}"
            for table, days in self.workshop.contents().items()
            for day, content in days.items()
            if before[table].get(day) != content
        ]
        noticed = (incident.opened - since).total_seconds()
        ended = [each.ended for each in incident.attempts if each.ended]
        built = f"{(max(ended) - since).total_seconds():.0f}" if ended else "-"
        times = f"{noticed:8.0f} {built:>8} {took:8.0f}"
        self.report.append(f"{name:16} {cause:24} {times} {backfills:9} {len(changed):6}  {incident.state}")
        return incident

    def settled(self) -> bool:
        runs = all(run.is_finished for run in self.instance.get_runs(limit=50))
        return runs and not [each for each in self.book.open() if each.state in ("repairing", "proving")]


@pytest.fixture(scope="module")
def sound_home(tmp_path_factory: pytest.TempPathFactory, connect_spark: SparkSession) -> tuple[Path, list[str]]:
    home = tmp_path_factory.mktemp("sound") / "home"
    workshop = Workshop(home, lambda: connect_spark)
    land_sold(DAYS, workshop.settings.landing, (356, 296, 343))
    late = withhold(workshop.settings.landing, DAYS.first, LATE)
    workshop.build_all(DAYS)
    workshop.build_reports(DAYS)
    return home, late


@contextmanager
def _playing(home: Path, source: Path, late: list[str], url: str, spark: SparkSession) -> Iterator[Healing]:
    shutil.copytree(source, home)
    workshop = Workshop(home, lambda: spark)
    variables = {
        "BACKFILL_HOME": str(home),
        "BACKFILL_NOTICES": f"file:{home / 'notices.jsonl'}",
        "BACKFILL_WATCHDOG_CRON": "* * * * *",
        "BACKFILL_REPAIRS": "pause=5,settle=2",
        "SPARK_REMOTE": url,
    }
    dagster = RealDagster(workshop.settings, variables)
    with dagster.processes(), dg.DagsterInstance.from_config(str(dagster.home)) as instance:
        yield Healing(workshop, dagster, instance, late)


@pytest.fixture
def healing(
    tmp_path: Path,
    sound_home: tuple[Path, list[str]],
    connect_server_for_tests: ConnectServer,
    connect_spark: SparkSession,
) -> Iterator[Healing]:
    source, late = sound_home
    with _playing(tmp_path / "home", source, late, connect_server_for_tests.url, connect_spark) as found:
        yield found


def overwrite(healing: Healing, table: str) -> None:
    """A writer that knows nothing of publications adds rows of the first day."""
    there = DeltaTable(str(healing.workshop.settings.lakehouse / table))
    rows = there.to_pyarrow_table(filters=[("day", "=", DAYS.first)]).slice(0, 2)
    write_deltalake(there, rows, mode="append")


def lose(healing: Healing, table: str, day: str) -> None:
    """A disk loses a file that main names."""
    for path in _files(healing, table, day):
        path.unlink()


def cut(healing: Healing, table: str, day: str) -> None:
    """Half of a file is there."""
    for path in _files(healing, table, day):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _files(healing: Healing, table: str, day: str) -> list[Path]:
    there = DeltaTable(str(healing.workshop.settings.lakehouse / table))
    found = [Path(path) for path in there.file_uris() if f"day={day}" in path]
    assert found
    return found


def land_with(healing: Healing, name: str, change: Callable[[dict[str, str]], None], count: int) -> None:
    """A further file of the last day: ``count`` new lines that are changed so."""
    (path, *_) = sorted((healing.landing / "sales" / str(DAYS.last)).glob("*.jsonl.gz"))
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()[:count]
    rows = [json.loads(line) for line in lines]
    for number, row in enumerate(rows):
        row["basket_id"] = f"9{number:010d}"
        change(row)
    deliver(healing.landing, DAYS.last, name, [json.dumps(row) for row in rows])


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_faults_of_each_kind_heal_by_themselves(healing: Healing) -> None:
    healing.wait_for(healing.settled, "the first look")
    sound = healing.workshop.contents()
    day = str(DAYS.first)

    healing.goes_wrong("foreign write", Cause.FOREIGN_WRITE, lambda: overwrite(healing, FACT))
    healing.wait_for(healing.settled, "the repair")
    assert healing.workshop.contents() == sound

    healing.goes_wrong("lost file", Cause.LOST_FILES, lambda: lose(healing, REVENUE, str(DAYS.last)))
    healing.wait_for(healing.settled, "the repair")
    healing.goes_wrong("damaged file", Cause.LOST_FILES, lambda: cut(healing, "bronze_sales", day))
    healing.wait_for(healing.settled, "the repair")
    assert healing.workshop.contents() == sound

    healing.goes_wrong("lost file of raw", Cause.LOST_RAW, lambda: lose(healing, "raw_sales", str(DAYS.last)))
    healing.wait_for(healing.settled, "the restore")
    assert healing.workshop.contents() == sound

    healing.goes_wrong("late rows", Cause.LATE, lambda: deliver(healing.landing, DAYS.last, "late", healing.withheld))
    healing.wait_for(healing.settled, "the repair")

    def tier(row: dict[str, str]) -> None:
        row["loyalty_tier"] = "gold"

    healing.goes_wrong("new field", Cause.DRIFT, lambda: land_with(healing, "tier", tier, 5), repaired=False)
    healing.wait_for(healing.settled, "what follows")

    def broken(row: dict[str, str]) -> None:
        row["quantity"] = "many"

    # Other fields than before are a fault of their own; that gates hold the day back further down follows from it.
    bad = healing.goes_wrong("bad source", Cause.DRIFT, lambda: land_with(healing, "bad", broken, 400), repaired=False)
    assert "quantity is of another type" in bad.words and bad.next_step
    healing.wait_for(lambda: "bronze_sales" in healing.book.get(bad.id).follows, "the gates")
    healing.wait_for(healing.settled, "what follows")
    notices = (healing.workshop.settings.home / "notices.jsonl").read_text().splitlines()
    keys = [json.loads(line)["key"] for line in notices]
    assert len(keys) == len(set(keys)), "nothing is told twice"
    print(
        f"\n{'fault':16} {'cause':24} {'noticed':>8} {'built':>8} {'over':>8} {'attempts':>9} {'days':>6}  state, in s"
    )
    print("\n".join(healing.report))
