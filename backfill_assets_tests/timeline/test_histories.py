"""Any interleaving of what is done on main and on timelines, with deaths anywhere, ends as a sequential model says.

``HISTORIES`` and ``HISTORIES_SEED`` ask for more histories, or others, than the default; ``HISTORIES_SHRINK=1`` looks
for the shortest history that fails. `make test` plays one in five of them, `make test-long` each.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

import pytest

from backfill_assets.days import DayRange
from backfill_assets_tests.simulator.arrow_engine import FACT, REPORT, report_names, staged_by_arrow
from backfill_assets_tests.timeline import sequential_model as model
from backfill_assets_tests.timeline.played_lakehouse import DAYS, WEEKS, Deed, PlayedLakehouse

pytestmark = pytest.mark.protocol

SEED = int(os.environ.get("HISTORIES_SEED", "20170304"))
HISTORIES = int(os.environ.get("HISTORIES", "50"))
FEW = 10
"""One in so many is enough to notice a mutant."""
ENDED: Counter[str] = Counter()
"""How deeds have ended, by their kind."""
_WEIGHTS = {
    "arrive": 3,
    "run fact": 3,
    "run report": 2,
    "undo": 3,
    "reclaim": 2,
    "rewind": 4,
    "forward": 5,
    "run on": 4,
    "publish": 4,
    "delete": 1,
    "recover": 1,
    "run, and stand still": 1,
    "publish, and stand still": 1,
    "go on": 2,
}
_ON_A_TIMELINE = ("forward", "run on", "publish", "publish, and stand still", "delete")
_NAMES = ("one", "two", "three")
_NEWEST = 6
_FEWEST, _MOST = 6, 10


@dataclass(frozen=True)
class Chosen:
    """A deed of a history, and the choices that it may need."""

    kind: str
    number: int
    """Which publication or timeline, of those that there are."""
    days: tuple[date, ...]
    version: str
    name: str
    as_other: bool
    flag: bool
    points: int
    """How many crash points it passes, if it dies or stands still."""
    dies: bool

    @property
    def dies_after(self) -> int | None:
        return self.points if self.dies else None


def deeds_of(seed: int) -> list[Chosen]:
    """The deeds of one history."""
    draw = random.Random(seed)
    return [
        Chosen(
            kind=draw.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0],
            number=draw.randrange(60),
            days=tuple(sorted(draw.sample(DAYS, draw.choice([1, 1, 2, 3, 4])))),
            version=draw.choice(["v1", "v2"]),
            name=draw.choice(_NAMES),
            as_other=draw.random() < 0.5,
            flag=draw.random() < 0.5,
            points=draw.randrange(14),
            dies=draw.random() < 0.35,
        )
        for _ in range(draw.randrange(_FEWEST, _MOST + 1))
    ]


class History:
    """One lakehouse, and at most one deed that stands still while others go on."""

    def __init__(self, played: PlayedLakehouse) -> None:
        self.played = played
        self.paused: tuple[str, Deed] | None = None
        self.campaigns = 0

    def play(self, chosen: Chosen) -> None:
        do: dict[str, Callable[[Chosen], None]] = {
            "arrive": self.arrive,
            "run fact": self.run_fact,
            "run report": self.run_report,
            "undo": self.undo,
            "reclaim": self.reclaim,
            "rewind": self.rewind,
            "forward": self.forward,
            "run on": self.run_on,
            "publish": self.publish,
            "delete": self.delete,
            "recover": lambda _: self.played.recover(),
            "run, and stand still": self.run_fact,
            "publish, and stand still": self.publish,
            "go on": lambda _: self.go_on(),
        }
        possible = self.possible(chosen)
        do[possible.kind](possible)

    def possible(self, chosen: Chosen) -> Chosen:
        """Mostly, what needs a timeline comes when there is one: before that, the one that it needs is made."""
        lines = [line for each in self.played.candidates for line in each.model.lines.values()]
        if chosen.number % 10 == 0 or chosen.kind not in _ON_A_TIMELINE:
            return chosen
        if not lines:
            return replace(chosen, kind="rewind")
        if chosen.kind.startswith("publish") and not any(line.versions for line in lines):
            return replace(chosen, kind="forward")
        return chosen

    def _do(self, chosen: Chosen, work: object, modelled: object) -> None:
        if not chosen.kind.endswith("stand still"):
            how = self.played.do(work, modelled, dies_after=chosen.dies_after)  # type: ignore[arg-type]
            ENDED[f"{chosen.kind}: {how}"] += 1
        elif self.paused is None:
            self.paused = chosen.kind, self.played.begin(work, modelled, chosen.points)  # type: ignore[arg-type]
            self.played.judge()

    def _which(self, chosen: Chosen) -> int:
        """One of the newest publications, as its place among all."""
        count = len(self.played.publications())
        return count - 1 - chosen.number % min(count, _NEWEST)

    def _name(self, chosen: Chosen, *, gone_forward: bool = False) -> str:
        """A timeline that there is, in one of the models at least; rather one that has gone forward, if asked for."""
        lines = [(name, line) for each in self.played.candidates for name, line in each.model.lines.items()]
        ready = {name for name, line in lines if line.versions and gone_forward}
        names = sorted(ready or {name for name, _ in lines})
        return names[chosen.number % len(names)] if names else chosen.name

    # ---------------------------------------------------------------- main

    def arrive(self, chosen: Chosen) -> None:
        day = chosen.days[0]
        names = self.played.new_rows(day, 1 + chosen.flag)
        self._do(chosen, self.played.land(day, names), lambda deed: model.land(deed, day, names))

    def run_fact(self, chosen: Chosen) -> None:
        days, version = chosen.days, chosen.version
        self._do(chosen, self.played.run_fact(days, version), lambda deed: model.run_fact(deed, days, version))

    def run_report(self, chosen: Chosen) -> None:
        weeks = WEEKS if chosen.flag else WEEKS[chosen.number % 2 :][:1]
        self._do(chosen, self.played.run_report(weeks), lambda deed: model.run_report(deed, weeks))

    def undo(self, chosen: Chosen) -> None:
        which = self._which(chosen)
        if not any("raw" in each.model.published[which].after for each in self.played.candidates):
            self._do(chosen, self.played.roll_back(which), lambda deed: model.roll_back(deed, which))

    def reclaim(self, chosen: Chosen) -> None:
        if chosen.flag and self.paused is None:
            self.played.days_pass()
        self._do(chosen, self.played.reclaim(), lambda _: model.nothing)

    # ----------------------------------------------------------- timelines

    def rewind(self, chosen: Chosen) -> None:
        name, table, which = chosen.name, "report" if chosen.number % 5 == 0 else "fact", self._which(chosen)
        before = chosen.flag and which > 0
        days = DayRange(chosen.days[0], chosen.days[-1]) if chosen.as_other else None
        self._do(
            chosen,
            self.played.rewind(name, table, which, before=before, days=days),
            lambda _: model.rewind(name, table, which, before=before, days=tuple(days) if days else None),
        )

    def forward(self, chosen: Chosen) -> None:
        name, version = self._name(chosen), chosen.version
        taken = {name for each in self.played.candidates for name in each.model.lines}
        other = next((free for free in _NAMES if free not in taken), chosen.name) if chosen.as_other else None
        arrivals = chosen.number % 3 > 0
        self._do(
            chosen,
            self.played.forward(name, version, other, arrivals=arrivals),
            lambda deed: model.forward(deed, name, version, other, arrivals=arrivals),
        )

    def run_on(self, chosen: Chosen) -> None:
        name, days, version = self._name(chosen), chosen.days, chosen.version
        if chosen.flag:
            work = self.played.run_on(name, FACT, days, version)
            self._do(chosen, work, lambda deed: model.run_fact_on(deed, name, days, version))
        else:
            work = self.played.run_on(name, REPORT, WEEKS, "v1")
            self._do(chosen, work, lambda deed: model.run_report_on(deed, name, WEEKS))

    def publish(self, chosen: Chosen) -> None:
        name = self._name(chosen, gone_forward=chosen.number % 5 > 0)
        self.campaigns += 1
        work = self.played.publish(name, f"campaign-{self.campaigns}")
        self._do(chosen, work, lambda deed: model.publish(deed, name))

    def delete(self, chosen: Chosen) -> None:
        name = self._name(chosen)
        self._do(chosen, self.played.delete(name), lambda _: model.delete(name))

    # ------------------------------------------------------------ the end

    def go_on(self) -> None:
        if self.paused is not None:
            (kind, deed), self.paused = self.paused, None
            ENDED[f"{kind}: {self.played.end(deed)}"] += 1

    def end(self) -> None:
        """What stands still goes on, a new process finishes what died, and every timeline is read once more."""
        self.go_on()
        self.played.recover()
        self.played.read_again()


def wrong_from_the_second_day(played: PlayedLakehouse) -> None:
    """Four days by v2, then the last three again by v1, each time with the report: something to go back from."""
    for day in DAYS:
        names = played.new_rows(day, 2)
        played.do(played.land(day, names), lambda deed, day=day, names=names: model.land(deed, day, names))  # type: ignore[misc]
    for days, version in ((DAYS, "v2"), (DAYS[1:], "v1")):
        played.do(
            played.run_fact(days, version),
            lambda deed, days=days, version=version: model.run_fact(deed, days, version),  # type: ignore[misc]
        )
        played.do(played.run_report(WEEKS), lambda deed: model.run_report(deed, WEEKS))


def play(begun: PlayedLakehouse, deeds: Sequence[Chosen]) -> None:
    history = History(begun.copy())
    try:
        for chosen in deeds:
            history.play(chosen)
        history.end()
    finally:
        history.played.remove()


def shortest(begun: PlayedLakehouse, deeds: Sequence[Chosen]) -> Sequence[Chosen]:
    """Without the deeds that the failure does not need."""
    for left_out in range(len(deeds)):
        fewer = [chosen for place, chosen in enumerate(deeds) if place != left_out]
        try:
            play(begun, fewer)
        except Exception:
            return shortest(begun, fewer)
    return deeds


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayedLakehouse]:
    """What every history begins with."""
    ENDED.clear()
    with pytest.MonkeyPatch.context() as patch:
        staged_by_arrow(patch)
        found = PlayedLakehouse(tmp_path_factory.mktemp("begun"))
        wrong_from_the_second_day(found)
        yield found


@pytest.mark.timeout(max(600, 15 * HISTORIES))
@pytest.mark.parametrize(
    "one_in", [pytest.param(FEW, id=f"one in {FEW}"), pytest.param(1, id="each", marks=pytest.mark.long)]
)
def test_every_interleaving_ends_as_a_sequential_model_says(begun: PlayedLakehouse, one_in: int) -> None:
    """Main, each timeline with what it reads through to, and every row of raw once, after each deed."""
    for seed in range(SEED, SEED + HISTORIES, one_in):
        deeds: Sequence[Chosen] = deeds_of(seed)
        try:
            play(begun, deeds)
        except Exception:
            deeds = shortest(begun, deeds) if "HISTORIES_SHRINK" in os.environ else deeds
            print(f"HISTORIES_SEED={seed} HISTORIES=1", *deeds, sep="\n  ")
            raise


@pytest.mark.long
def test_histories_had_all_that_they_are_about(begun: PlayedLakehouse) -> None:
    """Each kind of deed came about, and each of them died; a model that is never asked proves nothing."""
    print(f"{HISTORIES} histories\n" + "\n".join(f"{n:6} {how}" for how, n in sorted(ENDED.items())))
    stood = [kind for kind in _WEIGHTS if kind.endswith("stand still")]
    kinds = [kind for kind in _WEIGHTS if kind not in ("recover", "go on", *stood)]
    ends = [*(f"{kind}: {how}" for kind in kinds for how in ("done", "died")), *(f"{kind}: done" for kind in stood)]
    if ENDED.total() < HISTORIES * _FEWEST:
        pytest.skip("only some of the histories were played")
    assert not [each for each in ends if not ENDED[each]], "what no history has done"


def test_publishing_leaves_days_that_the_timeline_does_not_hold(begun: PlayedLakehouse) -> None:
    """The second of three days became right before, and then main took another version: it is main's own."""
    played = begun.copy()
    wrong, between = len(played.publications()) - 2, (DAYS[2],)

    def do(work: object, modelled: object) -> None:
        assert played.do(work, modelled) == model.DONE  # type: ignore[arg-type]

    do(played.run_fact(between, "v2"), lambda deed: model.run_fact(deed, between, "v2"))
    do(
        played.rewind("one", "fact", wrong, before=True, days=None),
        lambda _: model.rewind("one", "fact", wrong, before=True, days=None),
    )
    do(played.forward("one", "v2", None), lambda deed: model.forward(deed, "one", "v2", None, arrivals=True))
    do(played.run_fact(between, "v1"), lambda deed: model.run_fact(deed, between, "v1"))
    do(played.publish("one", "campaign-1"), lambda deed: model.publish(deed, "one"))
    assert {day: version for day, (version, _) in played.main()["fact"].items()} == dict(
        zip(DAYS, ("v2", "v2", "v1", "v2"), strict=True)
    )
    played.remove()


def test_a_history_of_one_rewind_from_its_moment_to_its_publication(begun: PlayedLakehouse) -> None:
    """Rows arrive, the first attempt dies, the second shares its files with a third, and that one is published."""
    played = begun.copy()
    wrong, day, names = len(played.publications()) - 2, DAYS[1], played.new_rows(DAYS[1], 2)
    played.do(played.land(day, names), lambda deed: model.land(deed, day, names))
    played.do(
        played.rewind("one", "fact", wrong, before=True, days=None),
        lambda _: model.rewind("one", "fact", wrong, before=True, days=None),
    )

    def forward(name: str, other: str, dies_after: int | None = None) -> str:
        work = played.forward(name, "v2", other)
        return played.do(
            work, lambda deed: model.forward(deed, name, "v2", other, arrivals=True), dies_after=dies_after
        )

    assert forward("one", "two", dies_after=3) == "died"
    assert [forward("one", "two"), forward("two", "three")] == [model.DONE, model.DONE]
    assert played.do(played.delete("two"), lambda _: model.delete("two")) == model.DONE
    played.days_pass()
    assert played.do(played.reclaim(), lambda _: model.nothing) == model.DONE
    played.read_again()
    assert played.do(played.publish("three", "campaign-1"), lambda deed: model.publish(deed, "three")) == model.DONE
    played.read_again()
    played.remove()


def test_without_arrivals_the_other_days_of_a_week_are_of_the_moment_too(begun: PlayedLakehouse) -> None:
    """A day of two goes back: its week is main's, stale; forward computes it from both as the timeline shows them."""
    played, which = begun.copy(), len(begun.publications()) - 3
    back, other, week = DAYS[2], DAYS[3], WEEKS[1]

    def do(work: object, modelled: object) -> model.Line:
        assert played.do(work, modelled) == model.DONE  # type: ignore[arg-type]
        (each,) = played.candidates
        return each.model.lines[name]

    for name, arrivals in (("over-main", True), ("over-its-moment", False)):
        line = do(
            played.rewind(name, "fact", which, before=False, days=DayRange(back, back)),
            lambda _, name=name: model.rewind(name, "fact", which, before=False, days=(back,)),
        )
        assert line.stale == {"report": {week}} and line.days["report"][week] == line.base["report"][week]
        line = do(
            played.forward(name, "v2", None, arrivals=arrivals),
            lambda deed, name=name, arrivals=arrivals: model.forward(deed, name, "v2", None, arrivals=arrivals),
        )
        assert line.stale == {} and line.tables["fact"][other].version == ("v1" if arrivals else "v2")
    played.remove()


def test_publishing_computes_the_week_that_was_stale(begun: PlayedLakehouse) -> None:
    """It goes by what is published together, and not by the record that the timeline keeps of the week."""
    played, which = begun.copy(), len(begun.publications()) - 3
    back, other, week = DAYS[2], DAYS[3], WEEKS[1]
    before = played.main()["report"][week]
    rewound = model.rewind("one", "fact", which, before=False, days=(back,))

    def do(work: object, modelled: object) -> None:
        assert played.do(work, modelled) == model.DONE  # type: ignore[arg-type]
        assert all(each.model.lines["one"].stale == {"report": {week}} for each in played.candidates)

    do(played.rewind("one", "fact", which, before=False, days=DayRange(back, back)), lambda _: rewound)
    do(played.run_on("one", FACT, (other,), "v2"), lambda deed: model.run_fact_on(deed, "one", (other,), "v2"))
    do(played.publish("one", "campaign-1"), lambda deed: model.publish(deed, "one"))
    facts, report = (played.main()[table] for table in ("fact", "report"))
    assert before != report[week] == ("v1", report_names(facts[back][1] + facts[other][1]))
    played.remove()
