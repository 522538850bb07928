"""Delivering in any order of faults: each place hears of an end exactly if it heard of the beginning."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from backfill_assets import clock
from backfill_assets.notice_routes import SEVERITIES, Route, Severity, parse_routes
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.outbox import announce, due_notices
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.lake import Lake, dying_at
from backfill_assets_tests.publish.test_routes import URGENT, Places, whoever_sends_has_ended
from backfill_assets_tests.strategies.how_many import drawn

ROUTES = (
    "file:/a; slack:https://b from critical; alertmanager:https://d quiet 22:00-07:00; webhook:https://c from warning"
)
_Action = tuple[str, int, str]
_ACTIONS = st.one_of(
    st.tuples(st.just("goes on"), st.integers(0, 2), st.sampled_from(SEVERITIES)),
    st.tuples(st.just("goes on"), st.integers(0, 1), st.sampled_from(SEVERITIES)),
    st.tuples(st.just("up or down"), st.integers(0, 3), st.just("")),
    st.tuples(st.just("in doubt"), st.just(0), st.just("")),
    st.tuples(st.just("minutes"), st.sampled_from((1, 5, 60, 600)), st.just("")),
    st.tuples(st.just("deliver"), st.just(0), st.just("")),
    st.tuples(st.just("die"), st.integers(0, 12), st.sampled_from(("read", "sent", "marked"))),
)


@dataclass
class _Played:
    """Incidents and places, and what becomes of them."""

    lake: Lake
    places: Places = field(default_factory=lambda: Places(ROUTES))
    stages: defaultdict[int, dict[str, Severity]] = field(default_factory=lambda: defaultdict(dict))
    deaths: int = 0

    def do(self, action: _Action) -> None:
        what, number, more = action
        match what:
            case "up or down":
                self.places.down ^= {self.routes[number].kind}
            case "in doubt":
                self.places.in_doubt ^= {"alertmanager"}
            case "minutes":
                self.lake.clock += timedelta(minutes=number)
            case "deliver":
                deliver(self.lake.publisher(), self.places.sender)
            case "die":
                self.deaths += 1
                with suppress(Died):
                    deliver(self.lake.publisher(dying_at(CrashPoint(f"notice {more}"), number)), self.places.sender)
                whoever_sends_has_ended()
            case _:
                self.goes_on(number, cast("Severity", more))

    def goes_on(self, number: int, severity: Severity) -> None:
        """An incident is opened, may become critical, and is closed."""
        told = self.stages[number]
        if "closed" not in told:
            worse = severity == "critical" and "given-up" not in told
            stage = "opened" if not told else "given-up" if worse else "closed"
            told[stage] = severity
            about = {"severity": severity, "incident": f"i{number}", "resolved": stage == "closed"}
            announce(self.lake.storage, f"i{number}-{stage}", URGENT.model_copy(update=about))

    def ends_well(self) -> None:
        """All places are up, and it is day."""
        self.places.down, self.places.in_doubt = set(), set()
        self.lake.clock = datetime(2017, 6, 1, 12, tzinfo=UTC)
        deliver(self.lake.publisher(), self.places.sender)
        assert not due_notices(self.lake.publisher())
        assert not self.lake.storage.files("_outbox/routes", recursive=True)
        self.lake.clock += timedelta(days=2)
        assert deliver(self.lake.publisher(), self.places.sender).failing == ()

    @property
    def routes(self) -> tuple[Route, ...]:
        return parse_routes(ROUTES)

    def heard(self, kind: str, number: int) -> list[str]:
        start = f"i{number}-"
        return [key.removeprefix(start) for key in self.places.to(kind) if key.startswith(start)]


@given(actions=st.lists(_ACTIONS, min_size=4, max_size=30))
@settings(max_examples=drawn(60))
def test_no_end_without_a_beginning_and_no_beginning_without_its_end(
    tmp_path_factory: pytest.TempPathFactory, actions: list[_Action]
) -> None:
    """Whatever fails, is quiet, or dies: at each place the first word is no end, and the last of what is over is."""
    lake = Lake(tmp_path_factory.mktemp("lake"), FakeClock(datetime(2017, 3, 1, 12, tzinfo=UTC)))
    played = _Played(lake)
    with clock.use(lake.time):
        for action in actions:
            played.do(action)
        played.ends_well()
    for number, stages in played.stages.items():
        for route in played.routes:
            heard = played.heard(route.kind, number)
            event(f"{route.kind} hears {heard[-1] if heard else 'nothing'}")
            assert not heard or heard[0] != "closed", "an end without a beginning"
            assert not heard or "closed" not in stages or heard[-1] == "closed", "a beginning without its end"
            assert played.deaths or played.places.doubts or len(set(heard)) == len(heard), "told twice"
            if "closed" not in stages:
                wanted = {stage for stage, severity in stages.items() if route.takes(severity, "sales")}
                assert wanted == set(heard), "still open, and not told"
        if "closed" in stages and not played.deaths:
            assert not lake.storage.files(f"_outbox/told/i{number}")
