"""Built, brought by campaigns, undone and brought back in any order: no publication contradicts what main shows.

Two to five operations after a first build, some of them killed and typed again. ``HISTORIES`` and ``HISTORIES_SEED``
ask for more histories, or others, than the default; ``HISTORIES_SHRINK=1`` looks for the shortest history that fails.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal, get_args

import pytest

from backfill_assets.campaign.cutover import cut_over
from backfill_assets.days import DayRange, TableDay
from backfill_assets.rebuild.builder import silent
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets_tests.campaign.undo_lakehouse import (
    DAYS,
    DIED,
    DONE,
    EQUAL_DAYS,
    FACT,
    FRIDAY,
    MONDAY,
    REFUSED,
    RUN,
    SATURDAY,
    SUNDAY,
    Arrival,
    Reach,
    UndoLakehouse,
    Work,
    begun_lakehouse,
)

pytestmark = pytest.mark.protocol

SEED = int(os.environ.get("HISTORIES_SEED", "20170401"))
HISTORIES = int(os.environ.get("HISTORIES", "500"))
FEW = 4
"""Enough to notice a mutant."""
ENDED: Counter[str] = Counter()
"""How operations have ended, by their kind."""
_WEIGHTS = {
    "late row, equal day": 3,
    "late row": 2,
    "correction": 1,
    "deletion": 1,
    "rate": 3,
    "run": 1,
    "run bronze": 1,
    "run fact": 2,
    "campaign": 6,
    "campaign of equal days": 3,
    "roll back": 6,
    "undo the undo": 3,
    "rewind": 1,
    "forward": 1,
    "publish": 2,
}
_REACHES: Sequence[Reach] = ("raw", "bronze", "bronze", "bronze", "reports")
_ENOUGH = 400
"""Of so many histories each operation dies in some: 3 rewinds did in 500."""
_POINTS = (8, 40)
"""Before the crash points of a short operation are over, or of a long one."""


@dataclass(frozen=True)
class Chosen:
    """An operation of a history, and the choices that it may need."""

    kind: str
    number: int = 0
    """Which publication or row, of those that there are."""
    days: tuple[date, ...] = DAYS
    version: str = "v2"
    arrival: Arrival = "late row"
    on: date = SATURDAY
    """The day of what arrives."""
    reach: Reach = "bronze"
    between: str = ""
    """When something arrives during a campaign; empty if nothing does."""
    flag: bool = False
    dies_after: int | None = None


def operations_of(seed: int) -> list[Chosen]:
    """The operations of one history."""
    draw = random.Random(seed)

    def days() -> tuple[date, ...]:
        first = draw.randrange(len(DAYS))
        return DAYS if draw.random() < 0.4 else DAYS[first : first + draw.choice([1, 2, 3])]

    return [
        Chosen(
            kind=draw.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0],
            number=draw.randrange(60),
            days=days(),
            version=draw.choice(["v1", "v2", "v2"]),
            arrival=draw.choice(get_args(Arrival)),
            on=draw.choice([*DAYS, FRIDAY, *EQUAL_DAYS]),
            reach=draw.choice(_REACHES),
            between=draw.choice(("", "", "between stagings", "before the cut-over")),
            flag=draw.random() < 0.5,
            dies_after=draw.randrange(draw.choice(_POINTS)) if draw.random() < 0.3 else None,
        )
        for _ in range(draw.randrange(2, 6))
    ]


class History:
    """One lakehouse, and the operations on it."""

    def __init__(self, played: UndoLakehouse) -> None:
        self.played = played
        self.operations = 0

    def play(self, chosen: Chosen) -> None:
        """What needs a publication or a timeline comes after an operation that makes one."""
        if (first := self._needed_first(chosen)) is not None:
            self.play(replace(chosen, kind=first, dies_after=None))
        if self._needed_first(chosen) is None:
            how = self.played.do(*self._works(chosen), dies_after=chosen.dies_after)
            ENDED[f"{chosen.kind}: {how}"] += 1
            self.operations += 1

    def _needed_first(self, chosen: Chosen) -> str | None:
        if chosen.kind == "undo the undo":
            return None if self.played.undos() else "roll back"
        if chosen.kind == "forward":
            return None if self.played.timelines() else "rewind"
        needs_a_campaign = chosen.kind in ("roll back", "rewind", "publish")
        return "campaign" if needs_a_campaign and not self.played.undoable(whole=True) else None

    def _works(self, chosen: Chosen) -> list[Work]:
        played = self.played
        works: dict[str, Callable[[], list[Work]]] = {
            "late row, equal day": lambda: played.arrive("late row", EQUAL_DAYS[chosen.flag], chosen.reach),
            "late row": lambda: self._arrives("late row", chosen),
            "correction": lambda: self._arrives("correction", chosen),
            "deletion": lambda: self._arrives("deletion", chosen),
            "rate": lambda: self._arrives("rate", chosen),
            "run": played.build_all,
            "run bronze": lambda: [*played.arrive("late row", chosen.on, "raw"), *played.build_all()[:2]],
            "run fact": lambda: [played.build(FACT, chosen.days, chosen.version)],
            "campaign": lambda: self._campaign(chosen, chosen.days),
            "campaign of equal days": lambda: self._campaign(chosen, EQUAL_DAYS),
            "roll back": lambda: [played.roll_back(self._newest(played.undoable(whole=chosen.number % 4 > 0), chosen))],
            "undo the undo": lambda: [played.roll_back(played.undos()[-1])],
            "rewind": lambda: [self._rewind(chosen)],
            "forward": lambda: [played.forward(played.timelines()[-1], chosen.version)],
            "publish": lambda: self._publish(chosen),
        }
        return works[chosen.kind]()

    def _newest(self, publications: Sequence[str], chosen: Chosen) -> str:
        return publications[-1 - chosen.number % min(4, len(publications))]

    def _arrives(self, what: Arrival, chosen: Chosen) -> list[Work]:
        return self.played.arrive(what, chosen.on, chosen.reach, chosen.number)

    def _campaign(self, chosen: Chosen, days: Sequence[date]) -> list[Work]:
        between = self._arrives(chosen.arrival, chosen) if chosen.between else []
        again = chosen.between == "between stagings"
        return self.played.campaign(chosen.version, days, whole=chosen.flag, between=between, again=again)

    def _rewind(self, chosen: Chosen) -> Work:
        days = None if chosen.flag else DayRange(chosen.days[0], chosen.days[-1])
        table = "fact" if chosen.number % 4 else "bronze"
        name = f"line-{len(self.played.timelines())}"
        return self.played.rewind(name, table, self._newest(self.played.undoable(), chosen), days)

    def _publish(self, chosen: Chosen) -> list[Work]:
        """The newest timeline, which goes forward first; one is made if there is none."""
        played = self.played
        if chosen.flag and (ready := played.timelines(gone_forward=True)):
            return [played.publish(ready[-1])]
        names = played.timelines()
        rewound = [] if names else [self._rewind(chosen)]
        name = names[-1] if names else "line-0"
        return [*rewound, played.forward(name, "v2" if chosen.number % 3 else "v1"), played.publish(name)]


def play(begun: UndoLakehouse, operations: Sequence[Chosen]) -> None:
    history = History(begun.copy())
    try:
        for chosen in operations:
            if history.operations < len(operations):
                history.play(chosen)
        history.played.end()
    finally:
        history.played.remove()


def failure(begun: UndoLakehouse, operations: Sequence[Chosen]) -> Exception | None:
    try:
        play(begun, operations)
    except Exception as error:
        return error
    return None


def shortest(begun: UndoLakehouse, operations: Sequence[Chosen]) -> Sequence[Chosen]:
    """Without the operations, deaths and arrivals that the failure does not need."""
    fewer = [[each for n, each in enumerate(operations) if n != place] for place in range(len(operations))]
    simpler = [
        [replace(each, **plain) if n == place else each for n, each in enumerate(operations)]
        for place in range(len(operations))
        for plain in ({"dies_after": None}, {"between": ""}, {"days": DAYS})
        if replace(operations[place], **plain) != operations[place]
    ]
    found = next((each for each in (*fewer, *simpler) if failure(begun, each) is not None), None)
    return shortest(begun, found) if found else operations


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UndoLakehouse]:
    """What every history begins with."""
    ENDED.clear()
    with begun_lakehouse(tmp_path_factory.mktemp("begun")) as found:
        yield found


@pytest.fixture
def played(begun: UndoLakehouse) -> Iterator[UndoLakehouse]:
    """A lakehouse of a test's own; each of its publications is judged."""
    found = begun.copy()
    yield found
    found.end()
    found.remove()


def undo(played: UndoLakehouse, dies_after: int | None = None) -> str:
    """Roll back the newest publication of a campaign, which may be an undo."""
    return played.do(played.roll_back(played.undoable(whole=True)[-1]), dies_after=dies_after)


@pytest.mark.parametrize("days", [DAYS, EQUAL_DAYS], ids=["of-all-days", "of-equal-days"])
@pytest.mark.parametrize("what", ["late row", "rate"], ids=["row", "rate"])
def test_what_came_after_the_campaign_reaches_the_reports_of_equal_days_when_it_is_undone(
    played: UndoLakehouse, what: Arrival, days: Sequence[date]
) -> None:
    """They are not in its publication: both versions make the same rows there."""
    assert played.do(*played.campaign("v2", days), *played.arrive(what, SATURDAY)) == DONE
    assert undo(played) == DONE
    assert undo(played) == DONE, "the undo of the undo"


def test_a_cut_over_of_the_fact_alone_names_the_days_that_read_it(played: UndoLakehouse) -> None:
    """A person asked for a part only: the entry lists what reads it, and no other day."""
    alone = [StepRequest(FACT, (MONDAY,), "v2")]

    def brought(lake: Lake) -> object:
        return cut_over(lake, "campaign-alone", alone, RUN, silent)

    assert played.do(brought) == DONE
    assert played.judge.seen[-1].made.leaves_stale == {"daily": (MONDAY,), "weekly": (MONDAY,)}


def test_a_week_that_followed_an_undo_is_built_like_any_other(played: UndoLakehouse) -> None:
    """It was no part of what is undone, so no one has rolled it back."""
    assert played.do(*played.campaign("v2", (SUNDAY, MONDAY))) == DONE
    assert [undo(played), undo(played)] == [DONE, DONE]
    assert played.do(*played.arrive("rate", FRIDAY)) == DONE
    assert undo(played) == DONE
    assert played.do(*played.build_all()) == DONE


def test_the_run_of_a_report_that_followed_an_undo_since_is_not_rolled_back(played: UndoLakehouse) -> None:
    assert played.do(*played.arrive("late row", SATURDAY, "reports")) == DONE
    (run,) = (each.made for each in played.judge.seen[played.begun_with :] if each.made.writes == {"daily"})
    assert played.do(*played.campaign("v2", DAYS), *played.arrive("late row", SATURDAY)) == DONE
    assert undo(played) == DONE
    undone = played.judge.seen[-1].prepared
    campaign = played.log.find_prepared(undone.publication.provenance.undoes)
    before = campaign[0].before_of("daily", SATURDAY) if campaign else None
    restored = before.files if before else ()
    (day,) = (each for each in undone.change("daily").days if each.day == SATURDAY)
    assert day.adds and day.adds != restored, "it was staged by the undo"
    assert played.log.day_states(played.log.head())[TableDay("daily", SATURDAY)].origin.rolled_back_by == ""
    assert played.do(played.roll_back(run.id)) == REFUSED


@pytest.mark.timeout(max(600, 10 * HISTORIES))
@pytest.mark.parametrize(
    "histories",
    [pytest.param(min(FEW, HISTORIES), id="few"), pytest.param(HISTORIES, id="many", marks=pytest.mark.long)],
)
def test_no_publication_contradicts_what_main_shows_with_it(begun: UndoLakehouse, histories: int) -> None:
    """Each is judged by plain Python right after it; in the end, everything is what raw alone makes of it."""
    failed: dict[int, Exception] = {}
    for seed in range(SEED, SEED + histories):
        if (error := failure(begun, operations_of(seed))) is not None:
            failed[seed] = error
            print(f"HISTORIES_SEED={seed} HISTORIES=1: {type(error).__name__}: {error}")
            if "HISTORIES_SHRINK" in os.environ:
                print("", *shortest(begun, operations_of(seed)), sep="\n  ")
    assert not failed, f"{len(failed)} of {histories} histories, of which the first: {next(iter(failed.values()))}"


@pytest.mark.long
def test_histories_had_all_that_they_are_about(begun: UndoLakehouse) -> None:
    """Each kind of operation came about, and each of them died; an oracle that is never asked proves nothing."""
    print(f"{HISTORIES} histories\n" + "\n".join(f"{n:6} {how}" for how, n in sorted(ENDED.items())))
    ends = [f"{kind}: {how}" for kind in _WEIGHTS for how in (DONE, DIED)]
    if HISTORIES < _ENOUGH or ENDED.total() < 2 * HISTORIES:
        pytest.skip("too few histories were played: an operation of which few die may not have died")
    assert not [each for each in ends if not ENDED[each]], "what no history has done"


@pytest.mark.parametrize(
    ("before", "between", "whole", "rows"),
    [
        (("late row", SATURDAY, "bronze"), "", False, 3),
        (("late row", MONDAY, "bronze"), "", False, 3),
        (("rate", FRIDAY, "bronze"), "", False, 2),
        (("deletion", SATURDAY, "raw"), "", True, 1),
        (None, "late row", False, 3),
        (None, "rate", False, 2),
    ],
    ids=[
        "a row of an equal day before it",
        "a row of another day before it",
        "a rate of Friday that was corrected before it",
        "a deletion that it took from raw",
        "a row between staging and cutting over",
        "a rate between staging and cutting over",
    ],
)
def test_what_came_before_or_during_the_campaign_stays_when_it_is_undone(
    played: UndoLakehouse,
    before: tuple[Arrival, date, Reach] | None,
    between: Arrival | Literal[""],
    whole: bool,
    rows: int,
) -> None:
    """In bronze, in the facts and in the reports."""
    on = before[1] if before else SATURDAY
    meanwhile = played.arrive(between, on) if between else []
    assert played.do(*(played.arrive(*before) if before else [])) == DONE
    assert played.do(*played.campaign("v2", DAYS, whole=whole, between=meanwhile)) == DONE
    assert undo(played) == DONE
    assert [len(played.names(table, on)) for table in ("bronze", "fact")] == [rows, rows]
    assert played.names("daily", on)[0].startswith(f"{rows}=")


def test_undone_with_nothing_in_between_and_brought_back_it_has_the_files_of_before(played: UndoLakehouse) -> None:
    """Also by a process that died in between and was typed again: it is done once. Run again, nothing is published."""
    assert played.do(*played.campaign("v2", DAYS)) == DONE
    brought = played.judge.shown.files
    assert [undo(played, dies_after=6), undo(played)] == [DIED, DONE]
    assert played.judge.shown.files == brought and len(played.undos()) == 2
    assert [undo(played), len(played.undos())] == [DONE, 3]
    assert played.do(*played.build_all()) == DONE
    known = len(played.judge.seen)
    assert [played.do(*played.build_all()), len(played.judge.seen)] == [DONE, known]
