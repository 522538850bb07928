"""The end of a demo: what the watchdogs found is said, and the first page is written with it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from backfill_assets.examples.demo import watched
from backfill_assets.settings import Settings


def _check(table: str, day: str, *, passed: bool) -> SimpleNamespace:
    return SimpleNamespace(asset_key=dg.AssetKey(table), partition=day, passed=passed)


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([], "0 days of tables read again: each is as it was published"),
        ([_check("raw_sales", "2017-03-01", passed=True)], "1 day of tables read again: each is as it was published"),
        (
            [_check("raw_sales", "2017-03-01", passed=True), _check("bronze_sales", "2017-03-02", passed=False)],
            "2 days of tables read again: wrong are bronze_sales 2017-03-02",
        ),
    ],
)
def test_what_the_watchdogs_found_is_said_and_the_first_page_is_written_after_it(
    verdicts: list[SimpleNamespace], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    def executed(**_: object) -> SimpleNamespace:
        happened.append("watchdogs")
        return SimpleNamespace(get_asset_check_evaluations=lambda: verdicts)

    def state(*_: object) -> str:
        happened.append("state")
        return "the state"

    monkeypatch.setattr(watched, "watchdog_job", lambda *_: SimpleNamespace(execute_in_process=executed))
    monkeypatch.setattr(watched, "lakehouse_state", state)
    monkeypatch.setattr(watched, "report_state", lambda _, found: happened.append(found))
    with dg.DagsterInstance.ephemeral() as instance:
        assert watched.watch_and_report(instance, Settings.at(tmp_path)) == said
    assert happened == ["watchdogs", "state", "the state"]
