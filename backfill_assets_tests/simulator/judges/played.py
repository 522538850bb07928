"""Histories that are right by the way they come about: one thing after the other, and only then told as overlapping.

The world here is two dicts: what tables hold, and what the log shows. It knows nothing of the program.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from backfill_assets_tests.simulator.history import History, Key, Operation, Outcome

TABLES = ("fact", "report", "rates")
KEYS: tuple[Key, ...] = tuple((table, f"2017-03-0{day}") for table in TABLES for day in (1, 2, 3))
BETWEEN = 10
_ANSWERED: tuple[Outcome, ...] = ("ok", "ok", "ok", "refused")
_WITH_DEATHS: tuple[Outcome, ...] = (*_ANSWERED, "unknown")


def publication(
    name: str,
    begin: int,
    end: int | None,
    values: Mapping[Key, tuple[str | None, str]],
    outcome: Outcome = "ok",
    *,
    made_of: Mapping[Key, str | None] | None = None,
    position: int | None = None,
) -> Operation:
    """``values`` are what was there and what is written; ``made_of`` is what it read of other tables."""
    before, after = ({key: pair[n] for key, pair in values.items()} for n in (0, 1))
    writes = {key: value for key, value in after.items() if value is not None}
    called = f"builder of {name}"
    return Operation(called, "publish", begin, end, outcome, writes, before, made_of or {}, name, position=position)


def read(
    process: str,
    begin: int,
    end: int,
    values: Mapping[Key, str | None],
    *,
    pinned: bool = True,
    position: int | None = None,
) -> Operation:
    return Operation(process, "read", begin, end, "ok", reads=values, pinned=pinned, position=position)


@dataclass
class _World:
    draw: random.Random
    deaths: bool
    tables: dict[Key, str] = field(default_factory=dict)
    log: dict[Key, str] = field(default_factory=dict)
    version: int = 0
    operations: list[Operation] = field(default_factory=list)
    moments: count[int] = field(default_factory=lambda: count(BETWEEN, BETWEEN))
    names: count[int] = field(default_factory=count)

    def read(self) -> None:
        keys, moment = self._some_keys(), next(self.moments)
        for pinned, there in ((True, self.log), (False, self.tables)):
            values = {key: there.get(key) for key in keys}
            position = self.version if pinned else None
            name = f"reader-{next(self.names)}"
            self.operations.append(read(name, moment, moment, values, pinned=pinned, position=position))

    def write_past_the_log(self) -> None:
        key, moment = self._some_keys()[0], next(self.moments)
        value = f"foreign-{next(self.names)}"
        before = {key: self.tables.get(key)}
        self.operations.append(Operation("foreign", "publish", moment, moment, "ok", {key: value}, before))
        self.tables[key] = value

    def publish(self) -> None:
        """One table after the other; perhaps it dies or is refused, and is brought to its end, or put back."""
        name, keys, begin = f"p{next(self.names)}", self._some_keys(), next(self.moments)
        values = {key: (self.tables.get(key), f"{key[1]} of {name}") for key in keys}
        outcome = self.draw.choice(_WITH_DEATHS if self.deaths else _ANSWERED)
        done = outcome == "ok" or (outcome == "unknown" and self.draw.random() < 0.5)
        reached = TABLES if done else TABLES[: self.draw.randrange(len(TABLES) + 1)]
        for table in reached:
            self.tables.update({key: after for key, (_, after) in values.items() if key[0] == table})
            self._perhaps_read()
        for table in () if done else reached:
            self._put_back({key: pair for key, pair in values.items() if key[0] == table})
            self._perhaps_read()
        self._close({table for table, _ in keys})
        moment = next(self.moments)
        end, position = (None, None) if outcome == "unknown" else (moment, self.version if outcome == "ok" else None)
        self.operations.append(publication(name, begin, end, values, outcome, position=position))

    def _put_back(self, values: Mapping[Key, tuple[str | None, str]]) -> None:
        for key, (before, _) in values.items():
            if before is None:
                self.tables.pop(key)
            else:
                self.tables[key] = before

    def _close(self, tables: set[str]) -> None:
        self.version += self.draw.randint(1, 3)
        kept = {key: value for key, value in self.log.items() if key[0] not in tables}
        self.log = kept | {key: value for key, value in self.tables.items() if key[0] in tables}

    def _perhaps_read(self) -> None:
        if self.draw.random() < 0.3:
            self.read()

    def _some_keys(self) -> list[Key]:
        return self.draw.sample(KEYS, self.draw.randint(1, len(KEYS)))


def played(seed: int, steps: int, *, deaths: bool = True, overlapping: bool = True) -> History:
    """``steps`` things that are done, as processes tell of them: each took place between its begin and its end."""
    world = _World(random.Random(seed), deaths)
    acts = [world.read, world.read, world.publish, world.publish, *([world.write_past_the_log] if deaths else [])]
    for _ in range(steps):
        world.draw.choice(acts)()
    told = _stretched(world.operations, world.draw) if overlapping else world.operations
    return History(tuple(told))


def _stretched(operations: Iterable[Operation], draw: random.Random) -> list[Operation]:
    def longer(each: Operation) -> Operation:
        end = None if each.end is None else each.end + draw.randrange(3 * BETWEEN)
        return replace(each, begin=max(0, each.begin - draw.randrange(3 * BETWEEN)), end=end)

    return [longer(each) for each in operations]
