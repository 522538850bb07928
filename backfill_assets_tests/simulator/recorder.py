"""Counts the steps of a world, and notes what its processes asked and were answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from backfill_assets_tests.simulator.history import History, Key, Kind, Operation, Outcome


@dataclass
class Recorder:
    """``steps`` is the one count that all operations are told by: each question and each answer is one."""

    steps: int = 0
    operations: list[Operation] = field(default_factory=list)
    _asked: dict[str, Operation] = field(default_factory=dict)

    def step(self) -> int:
        self.steps += 1
        return self.steps

    def asks(
        self,
        process: str,
        kind: Kind,
        publication: str | None = None,
        *,
        pinned: bool = True,
        writes: Mapping[Key, str] | None = None,
        reads: Mapping[Key, str] | None = None,
    ) -> None:
        """A process asks for one thing after the other; ``reads`` is what it has seen before it asks."""
        self._asked[process] = Operation(
            process,
            kind,
            self.step(),
            None,
            "unknown",
            writes=dict(writes or {}),
            reads=dict(reads or {}),
            publication=publication,
            pinned=pinned,
        )

    def asked_for(self, process: str) -> str | None:
        """The publication that a process has asked for and has no answer of."""
        return self._asked[process].publication if process in self._asked else None

    def told(
        self,
        process: str,
        outcome: Outcome,
        *,
        reads: Mapping[Key, str | None] | None = None,
        replaced: Mapping[Key, str | None] | None = None,
        position: int | None = None,
    ) -> None:
        """The process is answered; one that died, or was told of an error, does not know what became of it."""
        if (asked := self._asked.pop(process, None)) is not None:
            end = None if outcome == "unknown" else self.step()
            known = replace(asked, end=end, outcome=outcome, position=position)
            known = replace(known, reads={**asked.reads, **(reads or {})})
            self.operations.append(replace(known, replaced=dict(replaced or {})))

    def history(self) -> History:
        for process in list(self._asked):
            self.told(process, "unknown")
        return History(tuple(self.operations))
