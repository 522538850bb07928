"""Takes days that gained raw rows through all following steps, in one publication.

Only what new rows change is computed; a day whose metrics cannot be told exactly so is built whole. A failing day stays
as published, and stops no other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import chain

from backfill_assets import clock
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.records import InputRead, Publication
from backfill_assets.model.declaration import Step
from backfill_assets.publish.holds import held_days
from backfill_assets.publish.promote import Again, promote
from backfill_assets.publish.publisher import Conflict
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.growing import Growing, InputMemory
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.place import Place
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import HeldBack, StepBuilt, Walk, request_of
from backfill_assets.state.edited_logic import EditedLogic, contents_of, edited_logic
from backfill_assets.text import format_count

_MOST_TRIES = 4


@dataclass(frozen=True)
class Followed:
    publication: str
    steps: tuple[StepBuilt, ...] = ()
    left: Mapping[date, str] = field(default_factory=dict)
    read: Mapping[str, InputRead] = field(default_factory=dict)
    """What it was made of."""
    closed: Mapping[date, str] = field(default_factory=dict)
    """Days whose new rows wait, by who closed them and why."""

    @property
    def held_back(self) -> tuple[HeldBack, ...]:
        return tuple(chain.from_iterable(step.held_back for step in self.steps))

    def __str__(self) -> str:
        parts = [str(step) for step in self.steps]
        parts += [f"{each.table} {each.day} is held back: {each.why}" for each in self.held_back]
        parts += [f"{day} is left for the next time: {why}" for day, why in self.left.items()]
        parts += [f"{day} is {why}: its new rows wait" for day, why in self.closed.items()]
        return "; ".join(parts)


@dataclass
class FollowBuild:
    """Builds each day, today's too, by its published version. ``steps``: the one that refines raw rows, then those that
    follow, in build order.
    """

    lake: Lake
    steps: Sequence[Step]
    run: RunInfo
    progress: Progress
    memory: InputMemory
    name: str = "follow"
    open_days: frozenset[date] = frozenset()
    """Days that may lack reference data; they are built again when it has landed."""
    transaction: str = ""
    """Shared by all publications of a stream batch."""
    hold_seconds: float = 5.0
    """How long to wait in all for holds of others."""
    asked: Collection[date] = ()
    left: dict[date, str] = field(default_factory=dict)
    walks: list[Walk] = field(default_factory=list)

    def publish(self, days: Collection[date]) -> Followed:
        """Publish ``days`` of all steps together. Days that keep moving are left out of the last try. Raises
        :class:`PublicationRefused` if it fails too, or for a dirty tree.
        """
        self.lake.require_clean_tree()
        self.lake.publisher.recover({name for step in self.steps for name in step.table_names})
        self.asked = days
        try:
            published = promote(self.lake.publisher, self, self.progress, most=_MOST_TRIES)
        finally:
            for build in self.builds:
                build.close_timelines()
        last = self.walks[-1]
        read = last.growing.pin.inputs if last.growing else {}
        steps = tuple(last.done)
        closed = {day: closing.said for step in reversed(steps) for day, closing in step.build.closed.items()}
        done = Followed(published.publication if published else "", steps, self.left, read, closed)
        self.progress(str(done))
        return done

    @property
    def builds(self) -> list[StepBuild]:
        return [done.build for walk in self.walks for done in walk.done]

    def stage(self, *, held: bool) -> Publication | None:
        walk = self.walk(sorted(set(self.asked) - self.left.keys()))
        self.leave_held_days(walk)
        request = request_of(walk.done, self.lake.new_id(self.name))
        return request and request.model_copy(update={"transaction": self.transaction})

    def overtaken(self, by: Conflict) -> Again:
        """Before the last try, days that keep moving are left out."""
        walk = self.walks[-1]
        staged = {day for done in walk.done for day in done.build.staged}
        # A day is computed from the same day of its inputs, so moved days are the same in all tables.
        moved = staged.intersection(day for done in walk.done for day in done.build.moved_days(by))
        walk.forget(staged)
        if len(self.walks) == _MOST_TRIES - 1:
            self.left |= dict.fromkeys(moved, "other publications kept changing it")
        count = format_count(len(moved), "day")
        return Again(
            f"{count} moved meanwhile, extending again",
            PublicationRefused(f"other publications kept changing {count}.", hint="They are tried again."),
        )

    def walk(self, days: Sequence[date]) -> Walk:
        growing = Growing.begin(self.lake, self.steps, days, self.memory)
        for step in self.steps:
            for day, version in decide.undeclared(step, days, growing.pin.states).items():
                self.left[day] = f"{step.name} was published with {version}, which is not declared any more"
            for edited in self.edited(step):
                made = decide.versions_as_published(step, [d for d in days if d not in self.left], growing.pin.states)
                self.left |= {day: f"{edited} -> {edited.next_step}" for day in made if made[day] == edited.version}
        asked = [day for day in days if day not in self.left]
        walk = Walk(self.lake, Place(), self.run, self.progress, growing=growing)
        self.walks.append(walk)
        for step in self.steps:
            walk.take(StepRequest(step, asked, decide.AS_PUBLISHED, open_days=self.open_days))
        return walk

    def edited(self, step: Step) -> Sequence[EditedLogic]:
        """Cached while there are none: a process keeps the logic that it loaded."""
        if (known := self.memory.edited) is None or known:
            names = {name for each in self.steps for name in each.table_names}
            log = self.lake.publisher.log
            known = edited_logic(self.lake.storage, self.steps, contents_of(log.day_states(log.head(), names)))
            self.memory.edited = known
        return [each for each in known if each.step == step.name]

    # ------------------------------------------------------------------ days that are left

    def leave_held_days(self, walk: Walk) -> None:
        days = {name: list(done.build.staged) for done in walk.done for name in done.build.tables}
        self.lake.wait_for_holds(days, self.progress, self.hold_seconds)
        held = held_days(self.lake.storage, days, clock.now())
        self.left |= dict.fromkeys(held, "a campaign is cutting it over")
        walk.forget(held)
