"""``backfill history``: the log as a list, filtered and cut without losing what matters."""

from __future__ import annotations

from datetime import date

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import Notice
from backfill_assets.publish.publisher import CrashPoint
from backfill_assets_tests.cli.command import Backfill, built_once

FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


@built_once
def three(backfill: Backfill) -> None:
    """Of one table, of two at once, and of the first one again."""
    backfill.lakehouse.publish("first", {"raw_sales": {FIRST: [1], SECOND: [2]}})
    backfill.lakehouse.publish("second", {"bronze_sales": {FIRST: [1]}, "quarantine_sales": {FIRST: [5, 6]}})
    backfill.lakehouse.publish("third", {"raw_sales": {SECOND: [3, 4]}}, code="v2")


def _publications(backfill: Backfill, *arguments: object) -> list[str]:
    return [each["publication"] for each in backfill.json("history", *arguments)["publications"]]


def test_newest_first_with_everything_a_script_needs(three: Backfill) -> None:
    """Who, when, what, in place of what."""
    assert _publications(three) == ["third", "second", "second", "first"]
    third, bronze, quarantine, first = three.json("history")["publications"]
    assert third["kind"] == "replace" and third["outcome"] == "done"
    assert (third["run"], third["by"], third["git"]) == ("0123456789ab", "ana", "c0ffee0123456789")
    assert third["when"] == "2017-06-01T12:03:00+00:00"
    names = ("table", "days", "rows", "version", "code", "replaces")
    assert [third[name] for name in names] == ["raw_sales", [str(SECOND)], 2, 2, "v2", ["first"]]
    assert (bronze["table"], bronze["rows"]) == ("bronze_sales", 1)
    assert (quarantine["table"], quarantine["rows"]) == ("quarantine_sales", 2)
    assert first["days"] == [f"{FIRST}..{SECOND}"]


def test_filters_by_table_and_day(three: Backfill) -> None:
    """A day counts where it was touched."""
    assert _publications(three, "raw_sales") == ["third", "first"]
    assert _publications(three, "raw_sales", "--days", FIRST) == ["first"]
    assert _publications(three, "--days", "2018-01-01") == []
    assert "Did you mean raw_sales?" in three("history", "raw_sale", exit_code=1).stderr


def test_the_limit_says_what_it_hides_and_a_pipe_gets_the_table_alone(three: Backfill) -> None:
    """No one should take the newest for the whole; ``backfill history | cut -f 1,5`` prints publications and tables."""
    found = three.json("history", "--limit", 1)
    assert [each["publication"] for each in found["publications"]] == ["third"]
    assert found["next"] == ["backfill history --limit 5"] and "next" not in three.json("history")
    shown = three("history", "--limit", 1)
    lines = shown.stdout.splitlines()
    assert {line.count("\t") for line in lines} == {lines[0].count("\t")}
    assert "Older publications are not shown: backfill history --limit 5" in shown.stderr


def test_open_and_aborted_entries_are_listed(backfill: Backfill) -> None:
    """They are what a person looks for after a crash."""
    backfill.lakehouse.publish("first", {"raw_sales": {FIRST: [1]}})
    backfill.lakehouse.crash("dead", {"raw_sales": {FIRST: [2]}}, at=CrashPoint.PREPARED)
    assert [each["outcome"] for each in backfill.json("history")["publications"]] == ["open", "done"]
    backfill.lakehouse.write_past_the_protocol("raw_sales", FIRST, [9])
    backfill.lakehouse.publisher.recover()
    aborted, *_ = backfill.json("history")["publications"]
    assert aborted["outcome"] == "aborted" and "another writer changed raw_sales" in aborted["reason"]


def test_the_publication_of_a_campaign_names_who_approved_it(backfill: Backfill) -> None:
    """An undo names who undid it, and that is no approval."""
    made = backfill.lakehouse.request("cut", {"bronze_sales": {FIRST: [1]}})
    notice = Notice(title="Rebuilt", approved_by="ana (OS user, uid 1000)")
    campaign = made.provenance.model_copy(update={"campaign": "campaign-0123456789abcdef"})
    backfill.lakehouse.publish_request(made.model_copy(update={"notice": notice, "provenance": campaign}))
    with clock.use(backfill.lakehouse.time):
        roll_back(backfill.lakehouse.publisher, "cut", id="undo", steps=CATALOG.steps, provenance=made.provenance)
    assert [each["approved_by"] for each in backfill.json("history")["publications"]] == ["", "ana (OS user, uid 1000)"]
