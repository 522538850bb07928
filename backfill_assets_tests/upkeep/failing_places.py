"""Places that notices are really delivered to, each of which fails in each way in turn while all others work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise, product
from threading import Event

from backfill_assets import clock
from backfill_assets.errors import NoAnswer, NotDelivered
from backfill_assets.notice_routes import LOG, parse_routes
from backfill_assets.publish.delivery import Routed, deliver
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.places import LONGEST
from backfill_assets.publish.publisher import Publisher
from backfill_assets.publish.side_by_side import RoundLimits
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.upkeep.healing import Life

ROUTES = parse_routes(
    "log; webhook:https://w; slack:https://s; alertmanager:https://a; mail:smtp://m/?from=a@x&to=b@y; apprise:json://j"
)
WAYS = ("refuses", "hangs", "answers 500", "loses the answer")
_LIMITS = RoundLimits(message_seconds=0.25, round_seconds=20)


@dataclass(frozen=True)
class Span:
    """A place fails in one way from one moment to another."""

    place: str
    way: str
    begins: datetime
    ends: datetime


def in_turn(first: datetime, minutes: int) -> list[Span]:
    """Each place in each way, one after the other; the log is the process's own."""
    turns = list(product(WAYS, (route.name for route in ROUTES if route.name != LOG)))
    edges = [first + number * timedelta(minutes=minutes) / len(turns) for number in range(len(turns) + 1)]
    return [Span(place, way, *edge) for (way, place), edge in zip(turns, pairwise(edges), strict=True)]


@dataclass
class Post:
    """Delivers what is due at each look, and knows what each place has got when."""

    life: Life
    spans: Sequence[Span]
    announced: dict[str, datetime] = field(default_factory=dict)
    got: defaultdict[str, dict[str, datetime]] = field(default_factory=lambda: defaultdict(dict))
    """By place and key, when it came first; a receiver drops a key that it has seen."""
    again: list[tuple[str, str]] = field(default_factory=list)
    """What came to a place once more."""
    hung: Event = field(default_factory=Event)

    def look(self) -> None:
        """A round, if anything is due: without, there is none to send to."""
        due = self.life.storage.files("_outbox/due")
        for key in (file.path.rpartition("/")[2].removesuffix(".json") for file in due):
            self.announced.setdefault(key, self.life.now)
        if not due:
            return
        outlets = {route.name: _Place(route.name, self) for route in ROUTES}
        with clock.use(FakeClock(self.life.now)):
            deliver(Publisher(self.life.storage), Routed(ROUTES, outlets, _LIMITS))
        self.hung.set()
        self.hung = Event()

    def way(self, place: str) -> str:
        return next((each.way for each in self.spans if each.place == place and self._is_now(each)), "")

    def _is_now(self, span: Span) -> bool:
        return span.begins <= self.life.now < span.ends

    def take(self, place: str, due: DueNotice) -> None:
        for each in due.parts:
            if each.key in self.got[place]:
                self.again.append((place, each.key))
            self.got[place].setdefault(each.key, self.life.now)

    # ------------------------------------------------------------------ what is asked afterwards

    def check(self, told: Mapping[str, str]) -> None:
        """``told`` are the stages of each incident, as they came."""
        for route in ROUTES:
            for incident, stages in told.items():
                self._check_incident(route.name, [f"{incident}-{stage}" for stage in stages.split()])
        lossy = {(each.place, key) for each in self.spans if each.way == WAYS[-1] for key in self.announced}
        assert set(self.again) <= lossy, "told twice"

    def _check_incident(self, place: str, keys: Sequence[str]) -> None:
        got = {key: at for key, at in self.got[place].items() if key in keys}
        assert list(got) == [key for key in keys if key in got], (place, got, "out of order")
        assert not got or next(iter(got)) == keys[0], (place, keys, got, "an end without its beginning")
        for key in keys:
            span = next((each for each in self.spans if each.place == place and self._meets(each, key)), None)
            if span is None:
                assert got.get(key) == self.announced[key], (place, key, got, "held up by another place")
            elif key in got:
                assert got[key] <= span.ends + LONGEST, (place, key, got, "late")
            else:
                # It was over before the place worked again, which is told of neither.
                assert self.announced[keys[-1]] <= span.ends + LONGEST, (place, keys, got, "lost")

    def _meets(self, span: Span, key: str) -> bool:
        """Did the place fail then, or was it still left alone?"""
        return span.begins <= self.announced[key] < span.ends + LONGEST


@dataclass(frozen=True)
class _Place:
    name: str
    post: Post

    def send(self, due: DueNotice) -> None:
        match self.post.way(self.name):
            case "refuses":
                raise NotDelivered(f"{self.name} did not answer (ConnectionRefusedError)")
            case "answers 500":
                raise NotDelivered(f"{self.name} answered 500")
            case "hangs":
                self.post.hung.wait(60)
                raise NoAnswer(f"{self.name} did not answer (timed out)")
            case "loses the answer":
                self.post.take(self.name, due)
                raise NoAnswer(f"{self.name} did not answer (ConnectionResetError)")
            case _:
                self.post.take(self.name, due)
