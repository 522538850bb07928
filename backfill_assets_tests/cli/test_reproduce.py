"""``backfill reproduce`` tells equal from different, by exit code too. What it calls is tested in ``build``."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from backfill_assets.build import Builder
from backfill_assets.build.reproduce import Reproduced
from backfill_assets_tests.cli.command import Backfill

DAY = "2017-03-01"


def reproduced(*checksums: str) -> tuple[Reproduced, ...]:
    """Days that were published with checksum 7."""
    first = date.fromisoformat(DAY)
    return tuple(
        Reproduced("bronze_sales", first + timedelta(days=n), 1000, 1000, "7", checksum)
        for n, checksum in enumerate(checksums)
    )


@pytest.fixture
def published(backfill: Backfill) -> Backfill:
    backfill.lakehouse.publish("first", {"bronze_sales": {DAY: [7]}})
    return backfill


def test_equal_days_exit_with_0(published: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Days as a range, not one by one."""
    monkeypatch.setattr(Builder, "reproduce", lambda self, publication: reproduced("7", "7", "7"))
    output = published("reproduce", "first").output
    assert "2017-03-01..2017-03-03" in output and "equal" in output and "different" not in output


def test_a_different_day_exits_with_1_and_is_named(published: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """With both checksums, and where to look."""
    monkeypatch.setattr(Builder, "reproduce", lambda self, publication: reproduced("7", "8"))
    result = published("reproduce", "first", exit_code=1)
    assert "bronze_sales 2017-03-02: published 1,000 rows, checksum 7; now 1,000 rows, checksum 8" in result.stdout
    assert "first: 1 of 2 days came out different." in result.stderr
    told = published.json("reproduce", "first", exit_code=1)
    assert [(day["day"], day["equal"]) for day in told] == [("2017-03-01", True), ("2017-03-02", False)]


def test_an_unknown_publication_is_refused_without_spark(published: Backfill) -> None:
    """Spark takes ten seconds to say nothing."""
    assert "Did you mean first?" in published("reproduce", "frist", exit_code=1).stderr
