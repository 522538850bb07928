"""``backfill diff PUBLICATION recomputed`` reports equal, different, not reproduced, by exit code too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, timedelta

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.campaign_journal import campaign_of
from backfill_assets.lakehouse.records import DayContent, Environment
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.reproduce import Reproduced, Reproduction
from backfill_assets_tests.cli.command import Backfill

DAY = date(2017, 3, 1)
THEN = Environment(git_commit="c0ffee+dirty", packages="uv.lock 1", spark="4.2.0", java="17.0.15")
NOW = THEN.model_copy(update={"java": "21.0.2"})


def reproduced(*checksums: str | None, table: str = "bronze_sales", reason: str = "") -> tuple[Reproduced, ...]:
    """Days that were published with checksum 7."""
    again = [DayContent(1000, checksum) if checksum else None for checksum in checksums]
    days = ((DAY + timedelta(days=n), found) for n, found in enumerate(again))
    return tuple(Reproduced(table, day, DayContent(1000, "7"), found, reason) for day, found in days)


@pytest.fixture
def published(backfill: Backfill) -> Backfill:
    backfill.lakehouse.publish("first", {"bronze_sales": {DAY: [7]}})
    return backfill


def give(monkeypatch: pytest.MonkeyPatch, *days: Reproduced, made_with: tuple[Environment, ...] = (THEN,)) -> None:
    found = Reproduction(days, made_with, NOW)
    monkeypatch.setattr(Builder, "reproduce", lambda self, publication, progress: found)


def test_a_plan_stands_for_what_it_has_published(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does for a rollback, also after that: the days are proven that the campaign has computed."""
    asked: list[str] = []

    def reproduce(_: Builder, publication: str, progress: object) -> Reproduction:
        asked.append(publication)
        return Reproduction(reproduced("7"), (THEN,), NOW)

    monkeypatch.setattr(Builder, "reproduce", reproduce)
    plan = "plan-0123456789abcdef"
    backfill.lakehouse.publish("first", {"bronze_sales": {DAY: [7]}})
    refused = backfill("diff", plan, "recomputed", exit_code=1).stderr
    assert f"{plan} has published nothing." in refused and f"backfill status {plan}" in refused
    campaign = campaign_of(plan)
    request = backfill.lakehouse.request("cut", {"bronze_sales": {DAY: [8]}})
    made = request.provenance.model_copy(update={"campaign": campaign})
    backfill.lakehouse.publish_request(request.model_copy(update={"provenance": made}))
    with clock.use(backfill.lakehouse.time):
        roll_back(backfill.lakehouse.publisher, "cut", id="undo", steps=CATALOG.steps, provenance=made)
    for what in (plan, campaign, "cut"):
        backfill("diff", what, "recomputed")
    assert asked == ["cut"] * 3


LOST = {"table": "raw_sales", "reason": "the landed file x is gone"}


CAME_OUT: Mapping[int, tuple[tuple[Reproduced, ...], str, list[tuple[str, str, list[str]]]]] = {
    0: (reproduced("7", "7", "7"), "", [("bronze_sales", "equal", ["2017-03-01..2017-03-03"])]),
    3: (
        (*reproduced("7", "8"), *reproduced(None, **LOST)),
        "first: 1 of 3 days came out different.",
        [
            ("bronze_sales", "equal", ["2017-03-01"]),
            ("bronze_sales", "different", ["2017-03-02"]),
            ("raw_sales", "cannot be reproduced", ["2017-03-01"]),
        ],
    ),
    4: (
        (*reproduced("7"), *reproduced(None, None, **LOST)),
        "first: 2 of 3 days cannot be reproduced; 1 came out equal.",
        [
            ("bronze_sales", "equal", ["2017-03-01"]),
            ("raw_sales", "cannot be reproduced", ["2017-03-01..2017-03-02"]),
        ],
    ),
}
"""By exit code: days, what is said of them, and how they came out."""


@pytest.mark.parametrize("exit_code", CAME_OUT, ids=["equal", "a day is different", "days cannot be reproduced"])
def test_the_exit_code_says_how_days_came_out_and_tables_are_named(
    published: Backfill, monkeypatch: pytest.MonkeyPatch, exit_code: int
) -> None:
    """Days as ranges; no one should take the equal ones for the whole. What is lost has its reason."""
    days, said, came_out = CAME_OUT[exit_code]
    give(monkeypatch, *days)
    done = published("diff", "first", "recomputed", "--json", exit_code=exit_code)
    told = json.loads(done.stdout)
    found = [(row["table"], row["came_out"], row["which_days"]) for row in told["tables"] if row["days"]]
    assert found == came_out and said in done.stderr
    assert [row["why"] for row in told.get("not_reproduced", ())] == ["the landed file x is gone"] * (exit_code > 0)
    assert f"  {exit_code}   " in published("diff", "--help").output


def test_a_different_day_has_both_checksums(published: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, *reproduced("7", "8"))
    output = published("diff", "first", "recomputed", exit_code=3).stdout
    assert "bronze_sales\t2017-03-02\t1,000\t1,000\t7\t8" in output


def test_another_java_and_a_dirty_tree_are_named(published: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal rows by other software are worth knowing; different ones are explained by it."""
    give(monkeypatch, *reproduced("7"))
    output = published("diff", "first", "recomputed").output
    assert "first was made with Java 17.0.15; here Java 21.0.2." in output
    assert "first was made by code that no commit contains (c0ffee+dirty)." in output
    give(monkeypatch, *reproduced("7"), made_with=())
    assert "first did not record with which Java" in published("diff", "first", "recomputed").output


def test_an_unknown_publication_is_refused_without_spark(published: Backfill) -> None:
    """Spark takes ten seconds to say nothing."""
    assert "Did you mean first?" in published("diff", "frist", "recomputed", exit_code=1).stderr
