"""A line of a log is one document, whatever is in it, and says what it is about; secrets are hidden."""

from __future__ import annotations

import io
import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from backfill_assets.report.json_log import FIELDS, about, install, json_handler, named_in


@pytest.fixture
def lines() -> tuple[logging.Logger, io.StringIO]:
    log, stream = logging.Logger("backfill_assets.trial"), io.StringIO()  # noqa: LOG001 - of no other test
    log.addHandler(json_handler(stream))
    return log, stream


def _read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_time_level_logger_message_and_what_it_is_about(lines: tuple[logging.Logger, io.StringIO]) -> None:
    log, stream = lines
    with about(command="backfill run"), about(run="r1"):
        log.info("fact_daily_revenue %s: 3/9 days staged", "2017-03-01..2017-03-09", extra={FIELDS: {"seconds": 1.5}})
    log.warning("of nothing")
    first, second = _read(stream)
    time = first.pop("time")
    assert first == {
        "level": "INFO",
        "logger": "backfill_assets.trial",
        "message": "fact_daily_revenue 2017-03-01..2017-03-09: 3/9 days staged",
        "table": "fact_daily_revenue",
        "day": "2017-03-01..2017-03-09",
        "command": "backfill run",
        "run": "r1",
        "seconds": 1.5,
    }
    assert len(time) == len("2017-03-01T12:00:00.123Z") and time.endswith("Z")
    assert second.keys() == {"time", "level", "logger", "message"}


def test_several_lines_quotes_and_errors_stay_one_line(lines: tuple[logging.Logger, io.StringIO]) -> None:
    log, stream = lines
    try:
        raise ValueError('a "quote"\nand a line')
    except ValueError:
        log.exception('it said "no"\nand more ✓')
    [line] = _read(stream)
    assert line["message"] == 'it said "no"\nand more ✓' and line["error"].startswith("Traceback")
    assert stream.getvalue().count("\n") == 1


@pytest.mark.parametrize(
    "said",
    [
        "s3://ana:very-secret@store/lake",
        "https://hooks.example/x?token=very-secret&a=b",
        "AWS: api_key=very-secret",
        {"address": ["http://u:very-secret@h"]},
    ],
)
def test_secrets_in_addresses_are_hidden(lines: tuple[logging.Logger, io.StringIO], said: Any) -> None:
    log, stream = lines
    log.warning("it is %s", said, extra={FIELDS: {"said": said}})
    assert "very-secret" not in stream.getvalue() and "***" in stream.getvalue()


def test_of_a_run_it_says_run_step_table_and_day(lines: tuple[logging.Logger, io.StringIO]) -> None:
    log, stream = lines
    event = SimpleNamespace(asset_key=SimpleNamespace(path=["shadow", "fact_sales"]), partition="2017-03-01")
    meta = {"run_id": "r1", "job_name": "j", "step_key": "s", "dagster_event": event, "orig_message": "Materialized."}
    log.info("j - r1 - Materialized.", extra={"dagster_meta": meta})
    [line] = _read(stream)
    found = {name: line[name] for name in ("message", "run", "job", "step", "table", "day")}
    assert found == {
        "message": "Materialized.",
        "run": "r1",
        "job": "j",
        "step": "s",
        "table": "fact_sales",
        "day": "2017-03-01",
    }


def test_a_sentence_about_several_days_is_about_none() -> None:
    assert named_in("raw_sales 2017-03-01 and 2017-03-02") == {"table": "raw_sales"}
    publication = "20170601t101500-fact-daily-revenue-1a2b3c4d"
    assert named_in(f"{publication} is closed.") == {"publication": publication}


def test_once_installed_all_that_this_package_says_is_a_line_and_no_other_handler_stays() -> None:
    root, own = logging.getLogger(), logging.getLogger("backfill_assets")
    before, level, stream = root.handlers[:], own.level, io.StringIO()
    try:
        install(stream)
        logging.getLogger("backfill_assets.publish").info("said")
        logging.getLogger("other").info("not said")
        assert [line["message"] for line in _read(stream)] == ["said"] and len(root.handlers) == 1
    finally:
        root.handlers[:] = before
        own.setLevel(level)
        logging.captureWarnings(capture=False)
