"""Raw files are deleted or damaged: what is put back is what was published, row for row; all else is refused."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.days import DayRange
from backfill_assets.errors import BackfillError, SourceUnreadable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import Publication
from backfill_assets.publish.compact import compact
from backfill_assets.publish.crash_points import CrashPoint, nowhere
from backfill_assets.publish.publisher import Conflict, Published, Readers
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.restore import RestoreBuild, Restored, RowsLost
from backfill_assets.state.observed import observe
from backfill_assets.state.status import day_statuses
from backfill_assets_tests.cli.command import Backfill, work_with
from backfill_assets_tests.landing.test_landing_files import damage
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)
RAW = CATALOG.step("raw_sales")
MORNING, LATE = f"sales/{FIRST}/morning.jsonl.gz", f"sales/{SECOND}/late.jsonl.gz"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Two arrivals. The second has late rows of the first day, and a newer version of one of them for its own day."""
    workshop = Workshop(tmp_path_factory.mktemp("whole") / "home", lambda: spark)
    landing = workshop.settings.landing
    lines = [sale(basket_id=f"{number}") for number in range(6)]
    land(landing, "sales", str(FIRST), "morning", [*lines, "no JSON", {**lines[0], "loyalty_tier": "gold"}])
    workshop.build("raw_sales", [FIRST])
    newer = sale(basket_id="1", transaction_timestamp=f"{SECOND}T08:00:00Z", updated_at=f"{SECOND}T09:00:00Z")
    late = [sale(basket_id=f"late {number}") for number in range(3)]
    land(landing, "sales", str(SECOND), "late", [*late, newer])
    workshop.build("raw_sales", [SECOND])
    workshop.build("bronze_sales", [FIRST, SECOND])
    return workshop.settings.home


@pytest.fixture
def sales(built: Path, tmp_path: Path, spark: SparkSession) -> Workshop:
    return Workshop(shutil.copytree(built, tmp_path / "home"), lambda: spark)


def files(workshop: Workshop, day: date) -> list[Path]:
    uri = workshop.settings.lakehouse / "raw_sales"
    return [Path(each) for each in DeltaTable(str(uri)).file_uris(file_pruning_predicate=[("day", "=", str(day))])]


def delete(*paths: Path) -> None:
    for path in paths:
        path.unlink()


def holding(workshop: Workshop, landed: str) -> list[Path]:
    """The files of the first day with rows of a landed file."""
    read = {
        path: pq.ParquetFile(path).read(["source_file"])["source_file"].to_pylist() for path in files(workshop, FIRST)
    }
    return [path for path, sources in read.items() if landed in sources]


def restore(workshop: Workshop, days: Sequence[date] = (FIRST,)) -> Restored:
    run, report = RunInfo("a-run"), workshop.messages.append
    return workshop.builder.restore(RAW, days, run=run, progress=report)


def rows(workshop: Workshop) -> list[str]:
    return sorted(map(str, workshop.read("raw_sales").astype(str).values.tolist()))


def positions(workshop: Workshop) -> dict[str, int]:
    main = MainTable.open(workshop.builder.lake.storage, "raw_sales")
    assert main is not None
    return {id: at for id, at in main.transactions().items() if id.startswith("landed:")}


class Whole:
    """What a workshop holds while nothing is lost."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop, self.rows, self.contents = workshop, rows(workshop), workshop.contents()
        self.positions = positions(workshop)

    def require_back(self) -> None:
        """The very rows, contents and positions; nothing that reads them is stale."""
        workshop, lake = self.workshop, self.workshop.builder.lake
        assert (rows(workshop), workshop.contents()) == (self.rows, self.contents)
        assert positions(workshop) == self.positions
        steps = [RAW, CATALOG.step("bronze_sales")]
        seen = observe(lake.storage, [table for step in steps for table in step.table_names], lake.publisher.log)
        statuses = day_statuses(steps, seen, DayRange(FIRST, SECOND), as_published=True)
        assert {status for of in statuses.values() for status in of.values()} == {None}
        assert restore(workshop, [FIRST, SECOND]) == Restored(())


def test_rows_come_back_from_landed_files_with_the_markers_that_newer_versions_had_left(sales: Workshop) -> None:
    """All files of one day, and of the other one the only one; an unparsable line and unknown fields are among them."""
    whole = Whole(sales)
    delete(*files(sales, FIRST), *files(sales, SECOND))
    done = restore(sales, [FIRST, SECOND])
    assert [each.day for each in done.days] == [FIRST, SECOND]
    assert {file.path for each in done.days for file in each.landed} == {MORNING, LATE}
    whole.require_back()


def test_of_a_day_only_what_is_lost_is_read_again(sales: Workshop) -> None:
    """A file that is cut short is as good as gone; statistics say which landed files it had rows of."""
    whole = Whole(sales)
    (cut,) = holding(sales, LATE)
    held = cut.read_bytes()
    column = pq.read_metadata(cut).row_group(0).column(0)
    at = column.data_page_offset + column.total_compressed_size - 3
    cut.write_bytes(bytes([*held[:at], held[at] ^ 1, *held[at + 1 :]]))
    (flipped,) = sales.builder.restore(RAW, [FIRST], run=RunInfo("look"), dry_run=True).days
    assert [file.path.rpartition("/")[2] for file in flipped.lost] == [cut.name], "a page has a checksum"
    cut.write_bytes(held[:-100])
    kept = {path.name for path in files(sales, FIRST)} - {cut.name}
    (sales.settings.landing / MORNING).unlink()
    (lost,) = restore(sales).days
    assert [file.path for file in lost.landed] == [LATE]
    assert kept < {path.name for path in files(sales, FIRST)}
    whole.require_back()


def test_rows_come_back_from_before_a_compaction(sales: Workshop) -> None:
    """Without any landed file. Of those of its files that are gone as well, from landed ones."""
    whole, landing, gone = Whole(sales), sales.settings.landing, holding(sales, MORNING)
    assert isinstance(compact(sales.builder.lake.publisher, "raw_sales", [FIRST], id="together"), Published)
    landing.rename(landing.with_name("away"))
    delete(*files(sales, FIRST))
    restore(sales)
    whole.require_back()

    landing.with_name("away").rename(landing)
    assert isinstance(compact(sales.builder.lake.publisher, "raw_sales", [FIRST], id="again"), Published)
    delete(*files(sales, FIRST), *gone)
    (lost,) = restore(sales).days
    assert [file.path for file in lost.landed] == [MORNING] and lost.held
    whole.require_back()


def test_what_nothing_has_is_named_and_other_days_are_put_back(
    sales: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With files, lines and days; a landed file that is another one now is of no use."""
    before = sales.states("raw_sales")[FIRST]
    delete(*holding(sales, MORNING), *files(sales, SECOND))
    land(sales.settings.landing, "sales", str(FIRST), "morning", [sale(basket_id="another")])
    with pytest.raises(RowsLost) as refused:
        restore(sales, [FIRST, SECOND])
    said = refused.value
    assert said.message.startswith(f"raw_sales {FIRST} has lost 8 rows with _timelines/")
    assert said.message.endswith(f": 8 rows of them are nowhere else; the landed file {MORNING} is not what it was.")
    assert said.hint is not None and said.hint.endswith(f"backfill raw restore raw_sales {FIRST}")
    assert sales.states("raw_sales")[FIRST] == before
    assert all(path.exists() for path in files(sales, SECOND))

    work_with(monkeypatch, sales)
    backfill, sessions = Backfill(sales.settings.home, monkeypatch), sales.sessions
    (line,) = backfill.json("raw", "restore", "raw_sales", FIRST, f"{SECOND}..{SECOND}", "--dry-run")["days"]
    assert (line["day"], line["rows"], line["read_again_from"]) == (str(FIRST), 8, [])
    assert line["of_no_use"] == [f"the landed file {MORNING} is not what it was"]
    assert sales.sessions == sessions
    assert f"raw_sales {FIRST} has lost" in backfill("raw", "restore", "raw_sales", FIRST, exit_code=1).stderr
    assert "No file is lost." in backfill("raw", "restore", "raw_sales", SECOND).stdout


def test_a_landed_file_that_is_damaged_is_named(sales: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """As not what it was; and by the worker that reads it, if it is damaged only then. Raw stays as it is."""
    held, landed = sales.states("raw_sales")[FIRST], sales.settings.landing / LATE
    whole = landed.read_bytes()
    delete(*holding(sales, LATE))
    damage(landed)
    with pytest.raises(RowsLost, match=f"the landed file {LATE} is not what it was"):
        restore(sales)
    landed.write_bytes(whole)
    really = RestoreBuild.absent_rows

    def damaged_then(build: RestoreBuild, *given: Any) -> DataFrame:
        damage(landed)
        return really(build, *given)

    monkeypatch.setattr(RestoreBuild, "absent_rows", damaged_then)
    with pytest.raises(SourceUnreadable, match=r"late\.jsonl\.gz: undecodable gzip"):
        restore(sales)
    assert sales.states("raw_sales")[FIRST] == held


def test_a_day_that_others_wrote_to_is_left_to_a_person(sales: Workshop) -> None:
    """Which rows it is to have is not known."""
    uri = sales.settings.lakehouse / "raw_sales"
    held = pq.ParquetFile(holding(sales, MORNING)[0]).read().slice(0, 1).append_column("day", pa.array([FIRST]))
    foreign = held.select([field.name for field in DeltaTable(str(uri)).schema().fields])
    write_deltalake(str(uri), foreign, mode="append")
    delete(*holding(sales, LATE))
    there = files(sales, FIRST)
    with pytest.raises(RowsLost, match=r'others have written to it: backfill docs operations "Foreign writes"'):
        restore(sales)
    assert files(sales, FIRST) == there


class _Died(BaseException):
    """The process was killed."""


def test_killed_at_any_step_it_is_as_it_was_or_whole(sales: Workshop) -> None:
    """And the next attempt finds the rest to do, or nothing."""
    whole, publisher = Whole(sales), sales.builder.lake.publisher
    delete(*holding(sales, LATE))
    for point, left in ((CrashPoint.TABLES_READ, 1), (CrashPoint.TABLE_COMMITTED, 0)):

        def die(step: CrashPoint, about: str, point: CrashPoint = point) -> None:
            if step is point:
                raise _Died

        publisher.reached = die
        with pytest.raises(_Died):
            restore(sales)
        publisher.reached = nowhere
        assert sum(not path.exists() for path in files(sales, FIRST)) == left
    whole.require_back()


def test_rows_that_come_meanwhile_are_kept(sales: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream publishes to the day while its lost rows are read: they are read again, beside the new ones."""
    publisher, before = sales.builder.lake.publisher, rows(sales)
    delete(*holding(sales, LATE))
    really = publisher.publish

    def overtaken(request: Publication, readers: Readers) -> Published | Conflict:
        monkeypatch.setattr(publisher, "publish", really)
        land(sales.settings.landing, "sales", "2017-03-03", "more", [sale(basket_id="meanwhile")])
        # With a window, rows are compared with those of all files around.
        alone = replace(RAW, source=replace(SALES.source, supersession_window_days=0))
        sales.builder.build(alone, [date(2017, 3, 3)], run=RunInfo("another"))
        return really(request, readers)

    monkeypatch.setattr(publisher, "publish", overtaken)
    assert [each.day for each in restore(sales).days] == [FIRST]
    assert any("others publish to it" in message for message in sales.messages)
    after = rows(sales)
    assert len(after) == len(before) + 1 and set(before) < set(after)


def test_events_and_rows_that_were_taken_back_are_in_no_landed_file(sales: Workshop) -> None:
    """A refresh has deleted a row: the deletion is not made again without what was landed before."""
    lines = [sale(basket_id=f"late {number}") for number in range(2)]
    land(sales.settings.landing, "sales", str(SECOND), "late", lines)
    sales.builder.refresh(RAW, [SECOND], run=RunInfo("refresh"))
    newest = sales.states("raw_sales")[FIRST].publication
    (prepared,) = sales.builder.lake.publisher.log.prepared_of([newest])
    brought = {each.path for day in prepared.change("raw_sales").days for each in day.adds if day.day == FIRST}
    delete(*(sales.settings.lakehouse / "raw_sales" / path for path in brought))
    with pytest.raises(RowsLost, match="the source took rows of the day back, and deletions are in no landed file"):
        restore(sales)


def test_a_table_that_is_not_raw_is_refused(sales: Workshop) -> None:
    with pytest.raises(BackfillError, match="not read from a source"):
        sales.builder.restore(CATALOG.step("bronze_sales"), [FIRST], run=RunInfo("x"))
