"""``backfill history``: the log as a list, filtered and cut without losing what matters."""

from __future__ import annotations

from datetime import date

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import Notice
from backfill_assets.publish.publisher import CrashPoint
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.terminal import terminal

FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


def _three_publications(backfill: Backfill) -> None:
    backfill.lakehouse.publish("first", {"raw_sales": {FIRST: [1], SECOND: [2]}})
    backfill.lakehouse.publish("second", {"bronze_sales": {FIRST: [1]}, "quarantine_sales": {FIRST: [5, 6]}})
    backfill.lakehouse.publish("third", {"raw_sales": {SECOND: [3, 4]}}, code="v2")


def _publications(backfill: Backfill, *arguments: object) -> list[str]:
    return [each["publication"] for each in backfill.json("history", *arguments)["publications"]]


def test_newest_first_with_everything_a_script_needs(backfill: Backfill) -> None:
    """Who, when, what, in place of what."""
    _three_publications(backfill)
    third, bronze, quarantine, first = backfill.json("history")["publications"]
    assert [each["publication"] for each in (third, bronze, quarantine, first)] == [
        "third",
        "second",
        "second",
        "first",
    ]
    assert third["kind"] == "replace" and third["outcome"] == "done"
    assert (third["run"], third["by"], third["git"]) == ("0123456789ab", "ana", "c0ffee0123456789")
    assert third["when"] == "2017-06-01T12:03:00+00:00"
    names = ("table", "days", "rows", "version", "code", "replaces")
    assert [third[name] for name in names] == ["raw_sales", [str(SECOND)], 2, 2, "v2", ["first"]]
    assert (bronze["table"], bronze["rows"]) == ("bronze_sales", 1)
    assert (quarantine["table"], quarantine["rows"]) == ("quarantine_sales", 2)
    assert first["days"] == [f"{FIRST}..{SECOND}"]


def test_filters_by_table_and_day(backfill: Backfill) -> None:
    """A day counts where it was touched."""
    _three_publications(backfill)
    assert _publications(backfill, "raw_sales") == ["third", "first"]
    assert _publications(backfill, "raw_sales", "--days", FIRST) == ["first"]
    assert _publications(backfill, "--days", "2018-01-01") == []
    assert "Did you mean raw_sales?" in backfill("history", "raw_sale", exit_code=1).stderr


def test_the_limit_says_what_it_hides(backfill: Backfill) -> None:
    """No one should take the newest three for the whole."""
    _three_publications(backfill)
    shown = backfill("history", "--limit", 1).stdout
    assert "third" in shown and "second" not in shown and "--limit" not in shown
    assert backfill.json("history", "--limit", 1)["next"] == ["backfill history --limit 5"]
    with terminal(200):
        assert "Next: backfill history --limit 5" in backfill("history", "--limit", 1).output
        assert "Next" not in backfill("history").output


def test_a_pipe_gets_the_table_and_no_other_line(backfill: Backfill) -> None:
    """What docs/start.md types, ``backfill history | cut -f 1,5``, prints publications and tables."""
    _three_publications(backfill)
    shown = backfill("history", "--limit", 1)
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
    output = backfill("history").output
    assert "replace\taborted" in output and "another writer changed raw_sales" in output


def test_an_empty_lakehouse_is_no_error(backfill: Backfill) -> None:
    """And stays empty."""
    assert "Nothing was published" in backfill("history").output
    assert "No such publication" in backfill("history", "raw_sales").output
    assert backfill.json("history")["publications"] == [] and not (backfill.home / "lakehouse").exists()


def test_the_publication_of_a_campaign_names_who_approved_it(backfill: Backfill) -> None:
    """An undo names who undid it, and that is no approval."""
    made = backfill.lakehouse.request("cut", {"bronze_sales": {FIRST: [1]}})
    notice = Notice(title="Rebuilt", approved_by="ana (OS user, uid 1000)")
    campaign = made.provenance.model_copy(update={"campaign": "campaign-0123456789abcdef"})
    backfill.lakehouse.publisher.publish(made.model_copy(update={"notice": notice, "provenance": campaign}))
    roll_back(backfill.lakehouse.publisher, "cut", id="undo", steps=CATALOG.steps, provenance=made.provenance)
    assert [each["approved_by"] for each in backfill.json("history")["publications"]] == ["", "ana (OS user, uid 1000)"]
    assert "\tana (OS user, uid 1000)\t" in backfill("history").output
