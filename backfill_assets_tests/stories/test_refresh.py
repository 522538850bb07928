"""The source corrected its files: they are read again, raw gains what differs, and all tables follow."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
from backfill_assets.days import DayRange
from backfill_assets.errors import SourceUnreadable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.publish.crash_points import CrashPoint, nowhere
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets_tests.cli.command import work_with
from backfill_assets_tests.stories.corrected_source import (
    LINES_A_DAY,
    Line,
    Lines,
    assert_same_rows,
    build_everything,
    built_from_scratch,
    correct,
    folder,
    land_slice,
    read_lines,
    write_lines,
)
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)
DAYS = DayRange.parse("2017-03-01..2017-03-04")
FIRST, SECOND, THIRD, FOURTH = DAYS
LATER = "2017-03-20T00:00:00Z"
TAKEN_BACK = "32053106851-873902"
"""The key of the third real line of the first day."""


@pytest.fixture(scope="module")
def built_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Four real days, of which one line is rejected and one moved to another day; built down to every report."""
    workshop = Workshop(tmp_path_factory.mktemp("corrected") / "home", lambda: spark)
    land_slice(workshop, DAYS)
    correct(folder(workshop, FIRST) / "morning.jsonl.gz", lambda lines: [{**lines[0], "quantity": "-3"}, *lines[1:]])
    moved = {**read_lines(folder(workshop, FIRST) / "evening.jsonl.gz")[0], "updated_at": LATER}
    moved["transaction_timestamp"] = f"{SECOND}T10:00:00Z"
    correct(folder(workshop, SECOND) / "morning.jsonl.gz", lambda lines: [*lines, moved])
    build_everything(workshop, DAYS)
    return workshop.settings.home


@pytest.fixture
def sales(built_home: Path, tmp_path: Path, spark: SparkSession) -> Workshop:
    shutil.copytree(built_home, tmp_path / "home")
    return Workshop(tmp_path / "home", lambda: spark)


@pytest.fixture
def say(sales: Workshop, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command on the lakehouse and gives back what it says as JSON."""
    monkeypatch.setenv("BACKFILL_HOME", str(sales.settings.home))
    work_with(monkeypatch, sales)

    def run(*words: str) -> dict[str, Any]:
        result = CliRunner().invoke(main, [*words, "--json"])
        assert result.exit_code == 0, result.output + result.stderr
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    return run


def correct_everything(workshop: Workshop) -> None:
    """Another price, lines gone and new ones, another order, a line in another file, a file gone and one added.

    The rejected line is corrected, the newer version of the moved transaction is taken back, a line is there twice.
    """

    def prices(lines: Lines) -> Lines:
        changed = {**lines[1], "sales_value": "99.99", "updated_at": LATER}
        return [{**lines[0], "quantity": "3"}, changed, *reversed(lines[5:])]

    correct(folder(workshop, FIRST) / "morning.jsonl.gz", prices)
    kept: Lines = []

    def take_back(lines: Lines) -> Lines:
        kept.extend(lines[:10])
        return lines[10:-1]

    correct(folder(workshop, SECOND) / "morning.jsonl.gz", take_back)
    correct(folder(workshop, SECOND) / "evening.jsonl.gz", lambda lines: [*lines, *kept, lines[0]])
    lines = read_lines(folder(workshop, THIRD) / "evening.jsonl.gz")
    (folder(workshop, THIRD) / "evening.jsonl.gz").unlink()
    write_lines(folder(workshop, THIRD) / "night.jsonl.gz", [*lines[2:], added_line(lines[0])])


def added_line(like: Line) -> Line:
    return {**like, "basket_id": "900000000001", "transaction_timestamp": f"{FOURTH}T09:00:00Z"}


def test_a_corrected_source_ends_as_if_it_had_always_been_so(sales: Workshop, say: Any, tmp_path: Path) -> None:
    raw = sales.settings.lakehouse / "raw_sales"
    files = {path: path.read_bytes() for path in raw.rglob("*.parquet")}
    before = sales.contents()
    correct_everything(sales)
    with pytest.raises(SourceUnreadable, match=f"backfill raw refresh raw_sales {FIRST}"):
        sales.build("raw_sales", DAYS)

    shown = say("raw", "refresh", "raw_sales", str(DAYS), "--dry-run")

    assert sales.contents() == before
    done = say("raw", "refresh", "raw_sales", str(DAYS))
    assert done["rows"] == shown["rows"]
    assert [(each["event_day"], each["added"], each["deleted"]) for each in done["rows"]] == [
        (str(FIRST), 2, 5),
        (str(SECOND), 1, 1),
        (str(THIRD), 0, 2),
        (str(FOURTH), 1, 0),
    ]
    assert {
        each["arrival_day"]: [len(each[kind]) for kind in ("changed", "gone", "new")] for each in done["files"]
    } == {
        str(FIRST): [1, 0, 0],
        str(SECOND): [2, 0, 0],
        str(THIRD): [0, 1, 1],
        str(FOURTH): [0, 0, 0],
    }
    assert all(path.read_bytes() == content for path, content in files.items()), "raw is only appended to"

    sessions = sales.sessions
    assert say("raw", "refresh", "raw_sales", str(DAYS))["publication"] == ""
    assert all(day.reused for day in sales.build("raw_sales", DAYS).days), "every file counts as read as it is now"
    assert sales.sessions == sessions

    (fate,) = say("trace", TAKEN_BACK)["landed"]
    assert fate["outcome"] == "deleted" and f"read again by {done['publication']} on 20" in fate["why"]
    assert fate["why"].endswith(f"; {FIRST} was not built since")

    build_everything(sales, DAYS)
    fresh = built_from_scratch(sales, tmp_path / "fresh", DAYS)
    assert_same_rows(sales, fresh)
    assert len(fresh.read("fact_sales_transactions", DayRange.of(FIRST))) == LINES_A_DAY - 3
    metrics = {day: state.content.metrics for day, state in sales.states("raw_sales").items() if state.content}
    assert {day: of.get("deleted") for day, of in metrics.items()} == {FIRST: 5, SECOND: 1, THIRD: 2, FOURTH: None}


@pytest.mark.long
def test_the_undo_of_a_refresh_leaves_it_to_be_done_again(sales: Workshop, say: Any) -> None:
    before = sales.contents()["raw_sales"]
    correct_everything(sales)
    done = say("raw", "refresh", "raw_sales", str(DAYS))
    after = sales.contents()["raw_sales"]

    say("rollback", done["publication"], "--yes")

    assert sales.contents()["raw_sales"] == before
    again = say("raw", "refresh", "raw_sales", str(DAYS))
    assert again["rows"] == done["rows"]
    assert sales.contents()["raw_sales"] == after


class _Died(BaseException):
    """The process was killed."""


@pytest.mark.long
def test_a_killed_refresh_has_published_all_or_nothing(sales: Workshop, say: Any) -> None:
    """Rows and positions are one commit: the next refresh finds everything to do, or nothing."""
    before = sales.contents()["raw_sales"]
    correct_everything(sales)
    publisher = sales.builder.lake.publisher

    def killed_at(point: CrashPoint) -> None:
        def die(step: CrashPoint, about: str) -> None:
            if step is point:
                raise _Died

        publisher.reached = die
        with pytest.raises(_Died):
            sales.builder.refresh(CATALOG.step("raw_sales"), list(DAYS), run=RunInfo("killed"))
        publisher.reached = nowhere

    killed_at(CrashPoint.TABLES_READ)
    assert sales.contents()["raw_sales"] == before
    killed_at(CrashPoint.TABLE_COMMITTED)
    sessions = sales.sessions
    assert say("raw", "refresh", "raw_sales", str(DAYS))["publication"] == "", "its entry was finished"
    assert sales.sessions == sessions
    assert sales.contents()["raw_sales"] != before


def test_a_newer_version_that_its_source_took_back_lets_the_older_one_stand(workshop: Workshop) -> None:
    """It belonged to another day: on the day of the older one, all that is deleted is the marker."""
    landing = workshop.settings.landing
    older = sale(sales_value="0.50", updated_at="2017-03-02T00:00:00Z")
    newer = {**older, "transaction_timestamp": "2017-03-03T10:00:00Z", "updated_at": "2017-03-04T00:00:00Z"}
    land(landing, "sales", str(SECOND), "a", [older])
    taken_back = Path(land(landing, "sales", str(FOURTH), "b", [newer]))
    workshop.build("raw_sales", [SECOND, FOURTH])
    taken_back.unlink()
    workshop.builder.refresh(CATALOG.step("raw_sales"), [FOURTH], run=RunInfo("refresh"), progress=lambda _: None)
    workshop.build("bronze_sales", [FIRST, THIRD])
    bronze = workshop.read("bronze_sales", columns=["day", "sales_value", "superseded_by_day"])
    assert bronze.astype(str).values.tolist() == [[str(FIRST), "0.50", "<NA>"]]
