"""People who do one thing after the other in a world, each as a process of its own: what seeds find is told again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError
from backfill_assets.publish.crash_points import nowhere
from backfill_assets.rebuild.lake import Lake
from backfill_assets_tests.simulator.actors.arrivals import first_prices
from backfill_assets_tests.simulator.play import Alone, built
from backfill_assets_tests.simulator.priced import PRICED
from backfill_assets_tests.simulator.schedule import Turn
from backfill_assets_tests.simulator.staging import Names
from backfill_assets_tests.simulator.world import Deed, PlayedLife, World

_TO_THE_END = 20_000


@dataclass
class Story:
    """A world in which each deed is judged as soon as it is done."""

    world: World
    deeds: dict[str, Deed] = field(default_factory=dict)

    def do(self, deed: Deed, *, dies_after: int | None = None) -> str:
        """``done``, or why it was refused; ``died`` if its process ended after so many steps."""
        name, said = f"someone-{len(self.deeds)}", list[str]()

        def once(life: PlayedLife) -> None:
            if not said:
                try:
                    deed(life)
                except BackfillError as error:
                    said.append(str(error))
                else:
                    said.append("done")
            life.process.rest()

        self.deeds[name] = once
        self.world.take(Turn(name, _TO_THE_END) if dies_after is None else Turn(name, dies_after, "dies"))
        self.world.judge()
        return said[0] if said else "died"

    def lake(self) -> Lake:
        """Of a process whom nobody overtakes."""
        return Alone(self.world, "alone", self.world.count("alone")).lake(nowhere)

    def copy(self) -> AbstractContextManager[Story]:
        """Another world with the same past."""
        return story(self.world.seed, self.world)

    def rows(self, table: str, day: date) -> Names:
        """What main shows."""
        return tuple(sorted(self.world.agreement.shown.of(TableDay(table, day)).rows.elements()))

    @property
    def files(self) -> dict[TableDay, frozenset[str]]:
        """The files of each day that has some."""
        return {key: image.files for key, image in self.world.agreement.shown.images.items() if image.files}

    @property
    def undos(self) -> list[str]:
        return [id for id, seen in self.world.agreement.seen.items() if seen.made.provenance.undoes]

    @property
    def newest(self) -> str:
        """The newest publication of a campaign, which may be an undo."""
        return self.world.agreement.undoable()[-1]


@contextmanager
def story(seed: int = 1, past: World | None = None) -> Iterator[Story]:
    """In the end nothing is left half done, and everything is what raw alone makes of it."""
    told = Story(World(seed, {}, PRICED))
    told.world.actors = told.deeds
    with told.world.begun():
        told.world.begin_as(past or built(PRICED, first_prices))
        yield told
        told.world.close()


def in_one(*deeds: Callable[[PlayedLife], object]) -> Deed:
    """One after the other, by the same process."""

    def done(life: PlayedLife) -> None:
        for deed in deeds:
            deed(life)

    return done
