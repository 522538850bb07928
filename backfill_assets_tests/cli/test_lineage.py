"""What commands publish is told to the receiver that the client's settings name; one that is down fails none."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets.answers import machine
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.settings import Settings
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.publish.test_lineage_outbox import Receiver, receiving

pytestmark = pytest.mark.protocol
DAY = date(2017, 3, 1)


@pytest.fixture
def published(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> Backfill:
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    backfill.lakehouse.publish("one", {"bronze_sales": {DAY: [1]}})
    backfill.lakehouse.publish("two", {"bronze_sales": {DAY: [1, 2]}})
    return backfill


def _told(receiver: Receiver) -> list[tuple[str, str]]:
    return [(each["job"]["name"], each["outputs"][0]["name"].rpartition("/")[2]) for each in receiver.events]


def test_after_a_rollback_all_that_was_published_is_told(published: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
        published("status")
        published("rollback", "two", "--dry-run")
        assert not receiver.events, "a look tells nothing, nor does a dry run"
        published("rollback", "two", "--yes")
        published("maintain")
    built, undone = ("sales.bronze_sales", "bronze_sales"), ("sales.rollback", "bronze_sales")
    assert _told(receiver) == [built, built, undone]
    assert receiver.publications[:2] == ["one", "two"]


def test_a_receiver_that_is_down_is_said_by_maintain_and_doctor(
    published: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.from_environment()
    with receiving() as receiver:
        pass
    monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
    assert "openlineage takes no events since" in published("rollback", "two", "--yes").stderr
    assert "did not answer (ConnectionError)" in published("maintain").stderr
    found = machine.lineage(settings)
    assert found.verdict == "warn" and found.next_step == "To try again: backfill maintain --send-notices"
    with receiving(int(receiver.url.rpartition(":")[2])) as again:
        assert published("maintain", "--send-notices").stderr == ""
    assert len(again.events) == 3
    assert machine.lineage(settings).found.startswith("sent up to entry")


def test_without_a_receiver_doctor_says_nothing_of_it(published: Backfill) -> None:
    checks = machine._of_lakehouse(Settings.from_environment(), CATALOG)
    assert "notices" in checks and "lineage" not in checks
