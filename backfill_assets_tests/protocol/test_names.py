"""A name has one kept timeline, however those who create, rename, delete and keep them overtake each other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from backfill_assets.lakehouse.named_timelines import NamedTimeline, kept_timelines
from backfill_assets.lakehouse.storage import Storage
from backfill_assets_tests.protocol.names import Names

Deed = Callable[[Storage], object]
Scene = Callable[[Names], tuple[Deed, ...]]
LONGEST = 60
SEED, FEW_EXAMPLES, EXAMPLES = 20170302, 25, 400
_ANY, _STEPS, _NAME = st.integers(0, 2**16), st.integers(0, 14), st.sampled_from(["n", "m", "a"])


def creators(names: Names) -> tuple[Deed, ...]:
    return names.creating("n"), names.creating("n")


def rename_and_create(names: Names) -> tuple[Deed, ...]:
    return names.renaming(names.made("a"), "n"), names.creating("n")


def two_renames(names: Names) -> tuple[Deed, ...]:
    return names.renaming(names.made("a"), "n"), names.renaming(names.made("b"), "n")


def one_rename_by_two(names: Names) -> tuple[Deed, ...]:
    made = names.made("a")
    return names.renaming(made, "n"), names.renaming(made, "n")


def kept_longer_and_create(names: Names) -> tuple[Deed, ...]:
    longer = names.keeping_longer(names.made("n", ages=True))
    names.age()
    return longer, names.creating("n")


def kept_longer_and_rename(names: Names) -> tuple[Deed, ...]:
    longer = names.keeping_longer(names.made("n", ages=True))
    names.age()
    return longer, names.renaming(names.made("a"), "n")


def renamed_away_and_create(names: Names) -> tuple[Deed, ...]:
    return names.renaming(names.made("n"), "m"), names.creating("n")


def two_that_change_names(names: Names) -> tuple[Deed, ...]:
    return names.renaming(names.made("n"), "m"), names.renaming(names.made("m"), "n")


def delete_and_two_creates(names: Names) -> tuple[Deed, ...]:
    return names.deleting(names.made("n")), names.creating("n"), names.creating("n")


def renamed_away_and_two_creates(names: Names) -> tuple[Deed, ...]:
    return names.renaming(names.made("n"), "m"), names.creating("n"), names.creating("n")


def renamed_and_deleted_and_created(names: Names) -> tuple[Deed, ...]:
    made = names.made("a")
    return names.renaming(made, "n"), names.deleting(made), names.creating("n")


PAIRS = [
    creators,
    rename_and_create,
    two_renames,
    one_rename_by_two,
    kept_longer_and_create,
    kept_longer_and_rename,
    renamed_away_and_create,
    two_that_change_names,
]
THREE = [delete_and_two_creates, renamed_away_and_two_creates, renamed_and_deleted_and_created]


def play(
    scene: Scene, order: tuple[int, ...], turns: tuple[int, ...], wake: tuple[int, ...], *, dies: bool
) -> list[bool]:
    """Actors, in ``order``, take their turns and stand still; then each runs to its end, as they ``wake``.

    Of a death it is the first one that dies. Gives which of them stood still, and were not through.
    """
    names = Names()
    try:
        deeds = scene(names)
        actors = [names.start(deeds[number]) for number in order]
        for actor, steps in zip(actors, turns, strict=False):
            for _ in range(steps):
                actor.advance()
            names.judge()
        still = [not actor.finished for actor in actors[: len(turns)]]
        if dies:
            actors[0].crash()
        for number in wake:
            actors[number].run_out()
            names.judge()
        names.end()
    finally:
        names.remove()
    return still


@pytest.mark.protocol
@pytest.mark.parametrize("dies", [False, True], ids=["wakes_up_late", "dies"])
@pytest.mark.parametrize("scene", PAIRS, ids=lambda scene: str(scene.__name__))
def test_one_is_overtaken_by_another_at_every_call(scene: Scene, dies: bool) -> None:
    """At each call to the storage the other one runs to its end, in both orders."""
    for order in permutations(range(2)):
        turns = 0
        while play(scene, order, (turns,), (1, 0), dies=dies)[0] and turns < LONGEST:
            turns += 1
        assert 1 < turns < LONGEST, "the actor must have calls to be overtaken at"


def at_every_two_calls(scene: Scene, order: tuple[int, ...], wake: tuple[int, ...]) -> None:
    """Two of them stand still, each before every call that it makes."""
    for first in range(1, LONGEST):
        for second in range(1, LONGEST):
            stands = play(scene, order, (first, second), wake, dies=False)
            if not stands[0]:
                return
            if not stands[1]:
                break


@pytest.mark.protocol
@pytest.mark.parametrize(
    "scene",
    [kept_longer_and_create, *(pytest.param(scene, marks=pytest.mark.long) for scene in PAIRS)],
    ids=lambda scene: str(scene.__name__),
)
def test_two_stand_still_at_every_two_calls(scene: Scene) -> None:
    """The one that was first goes on first: it decides on what it read before the other one's calls."""
    for order in permutations(range(2)):
        at_every_two_calls(scene, order, (0, 1))


@pytest.mark.protocol
@pytest.mark.long
@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
@pytest.mark.parametrize("scene", THREE, ids=lambda scene: str(scene.__name__))
def test_a_third_one_comes_while_two_stand_still(scene: Scene, order: tuple[int, ...]) -> None:
    for wake in ((2, 0, 1), (2, 1, 0)):
        at_every_two_calls(scene, order, wake)


class NamedByMany(RuleBasedStateMachine):
    """All who name timelines, paused at any call and dying there; days pass meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.names = Names()

    def _room(self) -> bool:
        return len(self.names.alive()) < 4

    def _kept(self) -> list[NamedTimeline]:
        return kept_timelines(self.names.storage, self.names.now)

    def _some(self) -> bool:
        return self._room() and bool(self._kept())

    def _alive(self) -> bool:
        return bool(self.names.alive())

    def _begin(self, deed: Deed, steps: int) -> None:
        actor = self.names.start(deed)
        for _ in range(steps):
            actor.advance()

    @precondition(_room)
    @rule(name=_NAME, ages=st.booleans(), steps=_STEPS)
    def create(self, name: str, ages: bool, steps: int) -> None:
        self._begin(self.names.creating(name, ages=ages), steps)

    @precondition(_some)
    @rule(which=_ANY, deed=st.sampled_from(["rename", "rename", "keep longer", "delete"]), name=_NAME, steps=_STEPS)
    def change(self, which: int, deed: str, name: str, steps: int) -> None:
        kept = self._kept()
        timeline = kept[which % len(kept)]
        deeds = {
            "rename": self.names.renaming(timeline, name),
            "keep longer": self.names.keeping_longer(timeline),
            "delete": self.names.deleting(timeline),
        }
        self._begin(deeds[deed], steps)

    @precondition(_alive)
    @rule(which=_ANY, steps=_STEPS)
    def go_on(self, which: int, steps: int) -> None:
        alive = self.names.alive()
        for _ in range(steps):
            alive[which % len(alive)].advance()

    @precondition(_alive)
    @rule(which=_ANY)
    def die(self, which: int) -> None:
        alive = self.names.alive()
        alive[which % len(alive)].crash()

    @rule()
    def age(self) -> None:
        self.names.age()

    @invariant()
    def no_name_twice(self) -> None:
        self.names.judge()

    def teardown(self) -> None:
        try:
            self.names.end()
        finally:
            self.names.remove()


@pytest.mark.protocol
@pytest.mark.parametrize("examples", [FEW_EXAMPLES, pytest.param(EXAMPLES, marks=pytest.mark.long)])
def test_no_name_is_had_twice_while_many_name_and_die(examples: int) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        database=None,
        print_blob=True,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(hypothesis.seed(SEED)(NamedByMany), settings=chosen)
