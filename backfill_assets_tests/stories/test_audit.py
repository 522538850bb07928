"""The SQL of the reference on audits gives the answers that it is there for, on a lakehouse that was really built."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.campaign.cutover import cut_over
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.campaign.undo import undo
from backfill_assets.days import Cadence
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import Provenance, Publication, Switch
from backfill_assets.publish.log import LOG_TABLE
from backfill_assets.rebuild.environment import git_commit
from backfill_assets.rebuild.reproduce import ReproductionVerdict
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import shadow
from backfill_assets.spark.java import SUPPORTED
from backfill_assets.upkeep.incidents import OPENED, OVER, record
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.stories.rejected_sales import CHAIN, DAYS, FIRST, SECOND
from backfill_assets_tests.stories.staged_campaign import DAYS as STAGED_DAYS
from backfill_assets_tests.stories.staged_campaign import FACT, RUN, steps
from backfill_assets_tests.upkeep.incident import incident
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INCIDENT = incident()
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "audit.sql").read_text()
ASKED = dict(re.findall(r"^-- ([^\n]*\?)\n(?:-- [^\n]*\n)*(.*?);$", PAGE, re.DOTALL | re.MULTILINE))
REVENUE = "fact_daily_revenue"
REBUILT = {"fact_sales_transactions", REVENUE, "report_store_ranking"}
SHOWN = {
    "table": f"'{REVENUE}'",
    "day": "'2017-03-01'",
    "publication": "'20170601t101500-fact-daily-revenue-1a2b3c4d'",
    "run": "'4fa7c0de-0b5e-4b6e-9d0c-2a41c5a5e7f1'",
    "moment": "TIMESTAMP'2017-06-01T12:00:00Z'",
}
"""The examples in the queries of the file, for which a reader puts in what is asked for."""


class Auditor:
    """Asks the questions of the file."""

    def __init__(self, spark: SparkSession, rejected: Workshop) -> None:
        log = str(rejected.settings.lakehouse / LOG_TABLE)
        view = re.search(r"^CREATE .*?(?=;$)", PAGE, re.DOTALL | re.MULTILINE)[0]  # type: ignore[index]
        spark.sql(view.replace(".data/lakehouse/_publications", log))
        self.spark = spark
        self.asked: set[str] = set()

    def ask(self, words: str, **about: str) -> list[dict[str, Any]]:
        (question,) = (question for question in ASKED if words in question)
        self.asked.add(question)
        sql = ASKED[question]
        for name, value in about.items():
            assert SHOWN[name] in sql
            sql = sql.replace(SHOWN[name], f"TIMESTAMP'{value}'" if name == "moment" else f"'{value}'")
        return [row.asDict() for row in self.spark.sql(sql).collect()]


def test_every_question_of_the_file_is_answered(rejected: Workshop, spark: SparkSession) -> None:
    """One lakehouse, all of its questions; a question that is added to the file has to be asked here."""
    before = {table: rejected.states(table)[FIRST].publication for table in CHAIN if table != "report_store_ranking"}
    roll_back(rejected.builder.lake.publisher, before[REVENUE], id="undo", steps=CATALOG.steps)
    auditor = Auditor(spark, rejected)

    changes = auditor.ask("Who changed day D", table=REVENUE, day=str(FIRST))
    assert [(row["publication"], row["kind"], row["run"]) for row in changes] == [
        (before[REVENUE], "replace", "test-run"),
        ("undo", "rollback", ""),
    ]
    assert (changes[0]["code_version"], changes[1]["replaces"]) == ("v1", before[REVENUE])

    read = auditor.ask("What was read by", publication=before["fact_sales_transactions"])
    assert [row["table"] for row in read] == ["bronze_fx_rates", "bronze_sales"]
    assert {(row["first"], row["last"]) for row in read[1:]} == {(str(FIRST), str(SECOND))}
    assert all(row["version"] is not None for row in read)

    files = auditor.ask("Which landed files", publication=before["raw_sales"])
    assert {(row["file"], row["first_time"]) for row in files} >= {("sales/2017-03-01/bad.jsonl.gz", True)}

    made = auditor.ask("What was made from day D", table="bronze_sales", day=str(FIRST))
    assert [(row["publication"], row["table"], row["day"], row["staged"]) for row in made] == [
        (before["fact_sales_transactions"], "fact_sales_transactions", str(FIRST), False)
    ]
    (computed,) = auditor.ask("With what was day D", table=REVENUE, day=str(FIRST))
    assert (computed["publication"], computed["spark"]) == (before[REVENUE], spark.version)
    assert computed["java"].split(".")[0] in map(str, SUPPORTED) and computed["packages"].startswith("uv.lock ")
    assert computed["git_commit"] == git_commit()

    published = auditor.ask("What did run R publish", run="test-run")
    revenue = next(row for row in published if row["table"] == REVENUE)
    assert (revenue["days"], revenue["first"], revenue["last"]) == (2, str(FIRST), str(SECOND))

    undone = auditor.ask("Which days were rolled back")
    assert [(row["table"], row["day"], row["undone"]) for row in undone] == [
        (REVENUE, str(day), before[REVENUE]) for day in DAYS
    ]
    assert auditor.ask("What was aborted") == []
    assert auditor.ask("Who approved it") == [], "no campaign was published here"

    held = auditor.ask("What did table T hold", table=REVENUE, moment=str(changes[0]["at"]))
    assert [row["publication"] for row in held] == [before[REVENUE]] * 2
    _switch(rejected)
    (switched,) = auditor.ask("Who switched")
    asked = ("step", "from_version", "to_version", "launched_by", "reason")
    assert [switched[name] for name in asked] == [FACT, "", "v1", "ana", "until the close"]
    for stage in (OPENED, OVER, OVER):
        record(rejected.builder.lake.publisher.log, INCIDENT, stage)
    wrong = auditor.ask("What went wrong")
    assert [(row["incident"], row["cause"], row["outcome"]) for row in wrong] == [
        (INCIDENT.id, "late rows", stage) for stage in (OPENED, OVER)
    ]
    assert auditor.asked == set(ASKED)


def _switch(rejected: Workshop) -> None:
    made = Provenance(launched_by="ana", reason="until the close")
    switches = {FACT: Switch(version="v1")}
    asked = Publication(id="switch", kind="replace", tables=(), provenance=made, switches=switches)
    rejected.builder.lake.publisher.publish(asked)


@pytest.mark.long
def test_a_campaign_and_its_undo_are_reported_in_full_and_proven(
    wrong: Workshop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reports were made from days that the same publication brought; all of its tables can be computed again."""
    plan = [StepRequest(step.step, step.days[:3], step.version) for step in steps() if step.step.name in REBUILT]
    lake, tell = wrong.builder.lake, wrong.messages.append
    shadow(lake, "campaign-fx", plan, RUN, tell)
    campaign = cut_over(lake, "campaign-fx", plan, RUN, tell).published
    auditor, day = Auditor(spark, wrong), str(STAGED_DAYS.first)

    made = auditor.ask("What was made from day D", table=FACT, day=day)
    week = str(Cadence.WEEKLY.period(STAGED_DAYS.first).first)
    assert {(row["table"], row["day"]) for row in made if row["publication"] == campaign.publication} == {
        (REVENUE, day),
        ("report_store_ranking", week),
    }
    assert all(row["staged"] == (row["publication"] == campaign.publication) for row in made)
    read = auditor.ask("What was read by", publication=campaign.publication)
    assert [(row["table"], row["first"], row["last"]) for row in read if row["staged"]] == [(FACT, day, "2017-03-03")]
    assert (FACT, "2017-02-27") in {(row["table"], row["first"]) for row in read if not row["staged"]}, (
        "the week's others"
    )
    (told, *_) = Backfill(wrong.settings.home, monkeypatch).json("history", "--limit", 1)["publications"]
    (same,) = (each for each in told["made_of"] if each["same_publication"])
    assert (same["table"], same["version"]) == (FACT, campaign.versions[FACT])
    assert told["made_with"][0]["spark"] == spark.version

    proven = wrong.builder.reproduce(campaign.publication)
    assert {day.table for day in proven.days} == REBUILT
    assert {day.verdict for day in proven.days} == {ReproductionVerdict.EQUAL}
    assert proven.made_with == (proven.here,)

    undone = undo(lake, campaign.publication, RUN, tell).published
    back = wrong.builder.reproduce(undone.publication)
    assert len(back.days) == len(proven.days)
    assert {day.verdict for day in back.days} == {ReproductionVerdict.NOT_REPRODUCED}
    assert all("it was only put back" in day.reason for day in back.days)

    raw = wrong.states("raw_sales")[STAGED_DAYS.first].publication
    assert {day.verdict for day in wrong.builder.reproduce(raw).days} == {ReproductionVerdict.EQUAL}
    shutil.rmtree(wrong.settings.landing / "sales" / day)
    assert {day.verdict for day in wrong.builder.reproduce(raw).days} == {ReproductionVerdict.NOT_REPRODUCED}


def test_history_says_from_what(rejected: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables with their version and days, or landed files; briefly in the list, in full for scripts."""
    backfill = Backfill(rejected.settings.home, monkeypatch)
    (facts,) = backfill.json("history", "fact_sales_transactions", "--days", FIRST)["publications"]
    read = {each["table"]: each for each in facts["made_of"]}
    assert read["bronze_sales"]["days"] == [str(DAYS)] and read["bronze_sales"]["version"] is not None
    assert read["bronze_fx_rates"]["days"] == ["2017-02-22..2017-03-02"] and facts["landed"] == []
    (raw,) = backfill.json("history", "raw_sales")["publications"]
    assert "sales/2017-03-01/bad.jsonl.gz" in raw["landed"] and len(raw["landed"]) == 6
    assert "6 landed files" in backfill("history", "raw_sales").output
    assert "bronze_sales" in backfill("history", "fact_sales_transactions").output
