"""Commands find the Spark and the UI of a running ``backfill dev`` of their home, and link to its pages."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.campaign.standing import PlanStanding, page_of
from backfill_assets.cli.foreground import foreground_builder, foreground_spark
from backfill_assets.cli.running_dev import dev_file, noted_dev, running_dev, running_ui, shared_spark
from backfill_assets.cli.verbs.ui import page_about
from backfill_assets.lakehouse.campaign_journal import JournalEntry, campaign_of, write
from backfill_assets.lakehouse.campaign_reports import BegunReport
from backfill_assets.lakehouse.named_timelines import create_timeline
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.plan.records import Plan, PlanRequest
from backfill_assets.settings import Settings, lakehouse_path
from backfill_assets.spark.service import record_file
from backfill_assets.timeline.rewind import new_timeline
from backfill_assets.ui_addresses import asset_page
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.golden import MADE
from backfill_assets_tests.cli.terminal import terminal

DAY = date(2017, 3, 1)


def test_the_note_is_there_while_it_runs_and_ignored_after_a_kill(tmp_path: Path) -> None:
    settings = Settings.at(tmp_path)
    assert running_dev(settings) is None
    with noted_dev(settings, "http://127.0.0.1:3000", "sc://127.0.0.1:1"):
        found = running_dev(settings)
        assert found is not None and (found.pid, found.spark) == (os.getpid(), "sc://127.0.0.1:1")
        left = json.loads(dev_file(settings).read_text())
    assert not dev_file(settings).exists()
    dev_file(settings).write_text(json.dumps({**left, "started": left["started"] - 100}))
    assert running_dev(settings) is None, "another process has its number now"
    dev_file(settings).write_text("{")
    assert running_dev(settings) is None


def test_a_copy_of_a_home_is_not_served_by_what_serves_the_home(tmp_path: Path, port: int) -> None:
    """`cp -a` copies the notes as well: a demo would wait for a daemon that does not know the copy."""
    settings, copy, link = (Settings.at(tmp_path / name) for name in ("home", "copy", "link"))
    settings.home.mkdir()
    link.home.symlink_to(settings.home)
    with noted_dev(settings, f"http://127.0.0.1:{port}", f"sc://127.0.0.1:{port}"):
        shutil.copytree(settings.home, copy.home)
        assert running_dev(copy) is None and running_ui(copy) == "" and shared_spark(copy) == (copy, "")
        assert running_dev(link) == running_dev(settings) is not None


def test_its_spark_is_used_while_it_answers_unless_another_is_chosen(tmp_path: Path, port: int) -> None:
    settings = Settings.at(tmp_path)
    url = f"sc://127.0.0.1:{port}"
    with noted_dev(settings, "http://127.0.0.1:1", url):
        shared, keeper = shared_spark(settings)
        assert (shared.spark_remote, shared.spark_profile, keeper) == (url, "connect", "backfill dev")
        for other in (
            replace(settings, share_spark=False),
            replace(settings, spark_remote="sc://127.0.0.1:9"),
            replace(settings, spark_profile="standalone"),
            replace(settings, lakehouse=lakehouse_path("s3://bucket/elsewhere")),
        ):
            assert shared_spark(other) == (other, "")
    assert shared_spark(settings) == (settings, "")
    with noted_dev(settings, "http://127.0.0.1:1", "sc://127.0.0.1:1"):
        assert shared_spark(settings) == (settings, ""), "it does not answer"


def test_the_server_of_the_home_is_used_too(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.at(tmp_path)
    processes = [{"pid": os.getpid(), "java_class": "pytest"}]
    texts = {"profile": "connect", "log": "", "started": "", "home": str(tmp_path.resolve())}
    service = {"url": f"sc://127.0.0.1:{port}", "processes": processes, **texts}
    record_file(settings).write_text(json.dumps(service))
    monkeypatch.setattr("backfill_assets.spark.service.command_line", lambda pid: "pytest")
    assert shared_spark(settings)[1] == "backfill spark start"


def test_a_command_says_whose_spark_it_uses(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And how it gets one of its own; without a terminal too, with the time."""
    opened: list[Settings] = []

    def session(settings: Settings, *_: object) -> ExitStack:
        opened.append(settings)
        return ExitStack()

    monkeypatch.setattr("backfill_assets.spark.session.spark_session", session)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    settings, url = Settings.at(tmp_path), f"sc://127.0.0.1:{port}"
    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path))
    with ExitStack() as stack, noted_dev(settings, "http://127.0.0.1:1", url):
        for options in (None, {"spark.master": "local[1]"}):
            with foreground_builder(options) as builder:
                builder.lake.spark()
        foreground_spark(settings, stack)
    assert [each.spark_remote for each in opened] == [url, None, None]
    lines = capsys.readouterr().err.splitlines()
    own = "BACKFILL_SHARED_SPARK=never starts one of its own"
    assert lines[0].endswith(f"Z Using the Spark of backfill dev at {url}; {own}")
    assert all(line.endswith("Starting Spark ...") for line in lines[1:])


def test_a_ui_that_does_not_answer_is_none_and_costs_little(tmp_path: Path, port: int) -> None:
    settings = Settings.at(tmp_path)
    assert running_ui(settings) == ""
    assert running_ui(replace(settings, ui=f"http://127.0.0.1:{port}")) == f"http://127.0.0.1:{port}"
    began = time.monotonic()
    assert running_ui(replace(settings, ui="http://127.0.0.1:1")) == ""
    assert time.monotonic() - began < 0.2


def test_the_page_about_a_table_is_of_the_ui_that_runs(
    backfill: Backfill, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one, the command says how to start it."""
    backfill.lakehouse.publish("first", {"fact_daily_revenue": {DAY: [1]}})
    address = f"http://127.0.0.1:{port}"
    with noted_dev(Settings.at(backfill.home), address, "sc://127.0.0.1:1"):
        day = f"{address}/assets/fact_daily_revenue?view=partitions&partition={DAY}"
        assert backfill("ui", "fact_daily_revenue", DAY).output.strip() == day
        assert backfill.json("ui") == {"url": f"{address}/assets/start_here"}
        assert "is no table, plan, campaign or timeline" in backfill("ui", "nothing", exit_code=1).stderr
    with terminal(100):
        assert address not in backfill("status").output
    assert "backfill dev" in backfill("ui", exit_code=1).stderr
    monkeypatch.setenv("BACKFILL_UI", address)
    assert backfill("ui").output.strip() == f"{address}/assets/start_here"


def test_the_browser_is_opened_where_there_is_a_desktop(
    backfill: Backfill, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("click.launch", opened.append)
    monkeypatch.setenv("BACKFILL_UI", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("DISPLAY", ":0")
    backfill("ui")
    assert opened == [], "on a pipe the address is printed"
    with terminal(80):
        backfill("ui")
    assert opened == [f"http://127.0.0.1:{port}/assets/start_here"]


# --------------------------------------------------------------------------------------- which page is about a word


PLAN = "plan-0123456789abcdef"


def test_a_table_and_a_timeline_have_pages(backfill: Backfill) -> None:
    storage = backfill.lakehouse.storage
    create_timeline(storage, new_timeline(storage, "before", "ana", MADE))
    assert page_about("before", "") == asset_page("timelines", "before")
    assert page_about("bronze_sales", "") == asset_page("bronze_sales")
    assert page_about("bronze_sales", "2017-03-01") == asset_page("bronze_sales", "2017-03-01")
    assert page_about("nothing", "") == ""


def test_a_campaign_that_commands_carry_has_no_page_of_its_own(backfill: Backfill) -> None:
    """The first page names the commands that it waits for; one that Dagster carries is named for where it stands."""
    storage, first = backfill.lakehouse.storage, asset_page("start_here")
    kept = Plan(asked=PlanRequest(target="fact_daily_revenue", days="2017-03-01..2017-03-02"), steps=(), made_at=MADE)
    keep_plan(storage, kept.id, kept.to_json())
    own = asset_page("campaign", page_of(kept, PlanStanding.STAGING))
    assert page_about(kept.id) == first
    for daemon, page in ((False, first), (True, own)):
        write(storage, campaign_of(kept.id), JournalEntry(kind="started", report=BegunReport(daemon=daemon), at=MADE))
        assert page_about(kept.id) == page
