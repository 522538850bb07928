"""What a publication says of its days: what they were computed from and with, in rows that old processes pass over."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.records import DayContent, DayRead, DayRecord, Environment, InputRead
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.publish.files import ENTRIES
from backfill_assets.publish.log import lineages
from backfill_assets.rebuild import lake as lake_module
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.environment import differences, packages
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.place import NOTHING_LAID
from backfill_assets.rebuild.walk import shadow
from backfill_assets_tests.protocol.audit import log_rows
from backfill_assets_tests.rebuild.test_waiting_for_holds import DAY, STEP, Waiting

EARLIER = Environment(git_commit="c0ffee0123456789", packages="uv.lock 1", spark="4.2.0", java="17.0.15")
DIRTY = EARLIER.model_copy(update={"git_commit": "c0ffee0123456789+dirty"})


class Staged(Waiting):
    """A day that an earlier process has staged: this one publishes it, and computes nothing."""

    def stage_with(self, environment: Environment) -> None:
        for table in STEP.tables:
            timeline = Timeline(self.small.storage, table.name, "20170401t000000-earlier")
            judged = {day: staged.verdict for day, staged in timeline.days().items() if staged.verdict}
            how = {day: StagedAs(input_fingerprint=staged.input_fingerprint) for day, staged in timeline.days().items()}
            timeline.judge(judged, how, environment)

    def refusing(self) -> Lake:
        return replace(self.lake, refuse_dirty_tree=True)


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    found = Staged(tmp_path)
    found.stage_with(EARLIER)
    return found


@pytest.mark.protocol
def test_it_names_the_process_that_computed_not_the_one_that_publishes(staged: Staged) -> None:
    """Days are staged by one run and adopted by the next, in a campaign weeks later and by other code."""
    publication = staged.build()
    (days,) = lineages(staged.lake.storage, [publication]).values()
    assert days.keys() == {TableDay(table.name, DAY) for table in STEP.tables}
    lineage = days[TableDay("bronze_sales", DAY)]
    assert lineage.environment == EARLIER
    assert lineage.reads == (DayRead(table="raw_sales", version=1, first=DAY, last=DAY),)


@pytest.mark.protocol
def test_an_older_process_reads_the_entry_as_it_always_was(staged: Staged) -> None:
    """It refuses an entry with a field that it does not know, and an open one would then lock its tables for good.

    A field that is added here needs a newer version of the head, which an older process refuses in words.
    """
    publication = staged.build()
    log = staged.lake.publisher.log
    (row,) = (row for row in log_rows(log, "prepared") if row["publication"] == publication)
    entry = json.loads(row["detail"])
    change = entry["publication"]["tables"][0]
    assert entry.keys() == {"publication", "before", "window_days"}
    assert entry["publication"].keys() == {
        *("id", "kind", "tables", "inputs", "provenance", "notice"),
        *("transaction", "switches", "leaves_stale"),
    }
    assert entry["publication"]["provenance"].keys() == {
        *("run", "launched_by", "git_commit", "campaign", "timeline", "reason", "undoes", "first_undone", "withdraws")
    }
    assert change.keys() == {"table", "mode", "table_schema", "days", "positions"}
    assert change["days"][0].keys() == {"day", "adds", "content", "expected", "origin"}
    files = (Path(staged.lake.storage.root) / ENTRIES).glob(f"{row['sequence']:020d}-*.parquet")
    (held,) = (log.prepared_in(f"{ENTRIES}/{file.name}") for file in files)
    assert held.publication.id == publication, "the header is the first row with a detail"


@pytest.mark.protocol
def test_a_dirty_tree_is_refused_before_anything_is_done(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a run and by a campaign, if the settings say so."""
    monkeypatch.setattr(lake_module, "git_commit", lambda _declared: DIRTY.git_commit)
    refusing = staged.refusing()
    before = refusing.publisher.log.head().version
    with pytest.raises(PublicationRefused, match="BACKFILL_DIRTY_TREE"):
        Builder(refusing).build(STEP, [DAY], run=RunInfo("a-run"))
    with pytest.raises(PublicationRefused, match="BACKFILL_DIRTY_TREE"):
        shadow(refusing, "campaign-0123456789abcdef", [], RunInfo("a-run"), print)
    assert refusing.publisher.log.head().version == before
    assert staged.build(), "the default allows it"


@pytest.mark.protocol
def test_what_a_dirty_tree_has_staged_is_not_adopted_where_it_is_refused(
    staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clean process would publish it under its own commit."""
    monkeypatch.setattr(lake_module, "git_commit", lambda _declared: EARLIER.git_commit)
    staged.stage_with(DIRTY)
    with pytest.raises(pytest.fail.Exception, match="Spark is asked for"):
        Builder(staged.refusing()).build(STEP, [DAY], run=RunInfo("a-run"))
    staged.stage_with(EARLIER)
    assert Builder(staged.refusing()).build(STEP, [DAY], run=RunInfo("a-run")).publications


def test_days_of_the_same_publication_are_distinguished_from_those_of_main() -> None:
    """Contiguous days are one read; what a campaign has staged was at no version of main yet."""
    read = InputRead(table="t", version=7, days={})
    staged = DayRecord(day=date(2017, 3, 2), content=DayContent(0, "0"))
    overlay = NOTHING_LAID.with_days("t", [staged])
    days = DayRange.parse("2017-03-01..2017-03-04")
    assert overlay.day_reads(read, days) == [
        DayRead(table="t", version=7, first=date(2017, 3, 1), last=date(2017, 3, 1)),
        DayRead(table="t", version=7, first=date(2017, 3, 3), last=date(2017, 3, 4)),
        DayRead(table="t", version=None, first=date(2017, 3, 2), last=date(2017, 3, 2), staged=True),
    ]
    never = NOTHING_LAID.day_reads(read.model_copy(update={"version": None}), DayRange.of(date(2017, 3, 1)))
    assert [each.staged for each in never] == [False], "a table that was never published was read as empty"


def test_differences_name_only_what_differs() -> None:
    """What was not recorded is no difference."""
    here = EARLIER.model_copy(update={"java": "21.0.2", "packages": "uv.lock 2"})
    assert differences(EARLIER, EARLIER) == ""
    assert differences(EARLIER, here) == (
        "made with packages uv.lock 1, Java 17.0.15; here packages uv.lock 2, Java 21.0.2"
    )
    assert differences(Environment(java="17.0.15"), here) == "made with Java 17.0.15; here Java 21.0.2"
    assert "c0ffee0123456789+dirty" in differences(DIRTY, here)


def test_packages_are_known_by_the_lock_file_or_by_what_is_installed(tmp_path: Path) -> None:
    """The same twice, and another when a version changes."""
    lock = tmp_path / "uv.lock"
    installed = packages(lock)
    assert installed.startswith("installed ") and packages(lock) == installed
    packages.cache_clear()
    lock.write_text("one")
    first = packages(lock)
    packages.cache_clear()
    lock.write_text("two")
    assert first.startswith("uv.lock ") and packages(lock) != first
