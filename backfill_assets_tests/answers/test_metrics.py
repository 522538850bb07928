"""Each figure is made of what the state says; a board shows each one, and names none that is not there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from backfill_assets.answers.metrics import Family, ReadForMetrics, families
from backfill_assets.lakehouse.campaign_journal import Spent
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.landing.quarantine import RejectedRows
from backfill_assets.settings import shipped
from backfill_assets.state.diagnosis import Cause
from backfill_assets.stream.delays import Delays
from backfill_assets.stream.lease import HeldEvents, StreamHolder, StreamPosition, StreamStatus
from backfill_assets.upkeep.automation import SensorTicks
from backfill_assets.upkeep.incidents import RepairAttempt
from backfill_assets_tests.upkeep.incident import incident

NOW = datetime(2017, 4, 1, 12, tzinfo=UTC)
D1, D2 = date(2017, 3, 1), date(2017, 3, 2)


def _state(day: date, rows: int, staged_ms: int | None = None) -> DayState:
    return DayState("t", day, "p", 1, "x", DayContent(rows, "0", staged_ms=staged_ms))


def _values(read: ReadForMetrics, name: str) -> dict[str, float]:
    """By labels, written as Prometheus does."""
    [family] = [each for each in families(read, NOW) if each.name == f"backfill_{name}"]
    return {_text(labels): value for labels, value in family.samples}


def _text(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def test_publications_rows_and_days_are_counted_by_table() -> None:
    read = ReadForMetrics(
        closed={("replace", "done"): 3, ("replace", "aborted"): 1},
        last_closed=NOW,
        under_way=2,
        states=[_state(D1, 5, 1500), _state(D2, 7), replace(_state(D2 + timedelta(days=1), 0), content=None)],
        statuses={"t": {D1: None, D2: Cause.LATE, D2 + timedelta(days=1): Cause.LATE}},
        rejected=[RejectedRows("t", "q", {D1: 100, D2: 10}, {D1: 3, D2: 1}, 110)],
    )
    assert _values(read, "publications") == {"kind=replace,outcome=aborted": 1, "kind=replace,outcome=done": 3}
    assert _values(read, "last_publication_timestamp_seconds") == {"": NOW.timestamp()}
    assert _values(read, "publications_under_way") == {"": 2}
    assert _values(read, "rows") == {"table=t": 12} and _values(read, "staged_seconds") == {"table=t": 1.5}
    assert _values(read, "newest_day_timestamp_seconds") == {"table=t": datetime(2017, 3, 2, tzinfo=UTC).timestamp()}
    assert _values(read, "days") == {"table=t,status=fresh": 1, "table=t,status=stale: late rows": 2}
    assert _values(read, "rejected_rows") == {"table=t": 4} and _values(read, "received_rows") == {"table=t": 110}


def test_streams_say_their_delay_lag_and_whether_they_run() -> None:
    holder = StreamHolder(host="elsewhere", pid=1, process_started=0.0, lease="a")
    held = HeldEvents(table="t", day=D1, rule="r", why="w", events=9, since=NOW)
    stream = StreamStatus(
        table="raw_t",
        source="s",
        holder=holder,
        started=NOW,
        beat=NOW,
        until=NOW + timedelta(seconds=30),
        positions=(StreamPosition(partition="0", position=5, end=25), StreamPosition(partition="1", position=5)),
        delays={"t": Delays(1.5, 4.0)},
        held_back=(held,),
    )
    read = ReadForMetrics(streams=[stream, stream.model_copy(update={"table": "raw_u", "state": "stopped"})])
    assert _values(read, "stream_delay_seconds")["stream=raw_t,table=t,quantile=0.99"] == 4.0
    assert _values(read, "stream_lag_events")["stream=raw_t,partition=0"] == 20
    assert "stream=raw_t,partition=1" not in _values(read, "stream_lag_events"), "its end is not known"
    assert _values(read, "stream_running") == {"stream=raw_t": 1, "stream=raw_u": 0}
    assert _values(read, "stream_held_back_events")["stream=raw_t"] == 9


def test_repairs_count_once_for_several_incidents_and_cost_what_they_took() -> None:
    attempt = RepairAttempt(id="a1", at=NOW - timedelta(hours=1), title="", days={}, core_seconds=Decimal(1800))
    old = attempt.model_copy(update={"id": "a2", "at": NOW - timedelta(days=2), "ended": NOW, "proof": "passed"})
    read = ReadForMetrics(
        open=[incident(attempts=(attempt,)), incident(id="late-rows-2", attempts=(attempt,), severity="warning")],
        over=[incident(id="late-rows-3", attempts=(old,))],
        campaigns=[Spent(seconds=30.0), Spent(seconds=12.5)],
    )
    assert _values(read, "incidents_open") == {
        "cause=late rows,severity=info,state=waiting": 1,
        "cause=late rows,severity=warning,state=waiting": 1,
    }
    assert _values(read, "repairs") == {"outcome=passed": 1, "outcome=under way": 1}
    assert _values(read, "repair_core_seconds") == {"period=24h": 1800, "period=kept": 3600}
    assert _values(read, "repair_money") == {} and _values(read, "campaign_seconds") == {"": 42.5}
    assert _values(replace(read, price=Decimal("0.05")), "repair_money") == {"period=24h": 0.025, "period=kept": 0.05}


def test_each_sensor_says_when_it_last_ran_to_its_end() -> None:
    ticks = [
        SensorTicks(sensor="repairs", every_seconds=30, ended=NOW),
        SensorTicks(sensor="campaigns", every_seconds=30, failed=3),
    ]
    read = ReadForMetrics(sensors=ticks)
    assert _values(read, "sensor_last_success_timestamp_seconds") == {"sensor=repairs": NOW.timestamp()}
    assert _values(read, "sensor_failures") == {"sensor=repairs": 0, "sensor=campaigns": 3}


def test_without_anything_there_is_each_figure_and_no_number_is_made_up() -> None:
    found = families(ReadForMetrics(), NOW)
    said = {each.name: each.samples for each in found if each.samples}
    assert said.keys() == {f"backfill_{name}" for name in ("publications_under_way", "repair_core_seconds")} | {
        "backfill_campaign_seconds"
    }
    assert all(value == 0 for samples in said.values() for _, value in samples)
    assert all(re.fullmatch(r"backfill_[a-z_]+[a-z]", each.name) and each.words.endswith(".") for each in found)


# ------------------------------------------------------------------ the board


def _board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shipped("docs/grafana.json").read_text())
    return found


def _asked(board: Mapping[str, Any]) -> list[str]:
    shown = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    return [*shown, *(each["query"] for each in board["templating"]["list"])]


def test_the_board_shows_each_figure_and_names_no_other() -> None:
    there: list[Family] = families(ReadForMetrics(), NOW)
    named = {name for text in _asked(_board()) for name in re.findall(r"\bbackfill_[a-z_]+\b", text)}
    assert named == {each.shown_as for each in there}


def test_the_board_is_one_that_grafana_takes() -> None:
    """Its panels lie on a grid of 24 and do not overlap; each has an id, and each query a letter of its own."""
    panels = _board()["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert max(x for x, _ in cells) < 24 and not cells & taken
        taken |= cells
        letters = [each["refId"] for each in panel.get("targets", ())]
        assert len(letters) == len(set(letters)) and (panel["type"] == "row" or letters)
