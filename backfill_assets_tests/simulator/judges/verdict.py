"""What a judge says of a history: anomalies by their names, and what it could not decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from backfill_assets_tests.simulator.history import History, Key, Operation


@dataclass(frozen=True)
class Anomaly:
    """One kind of what must not be, with the shortest case of it as a sentence that a person can check.

    ``times`` counts the operations that saw it, or where none did, that made it.
    """

    name: str
    sentence: str
    operations: tuple[Operation, ...]
    times: int = 1

    def __str__(self) -> str:
        return f"{self.name} ({self.times}): {self.sentence}"


@dataclass(frozen=True)
class Verdict:
    """``undecided`` has in words what the judge did not come to, ``seen`` what is no promise and is only counted."""

    judge: str
    anomalies: tuple[Anomaly, ...] = ()
    undecided: tuple[str, ...] = ()
    seen: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        return {anomaly.name for anomaly in self.anomalies}

    def __str__(self) -> str:
        lines = [str(anomaly) for anomaly in self.anomalies] + [f"not decided: {each}" for each in self.undecided]
        lines += [f"seen by readers who pin nothing, {name}: {times} times" for name, times in self.seen.items()]
        return "\n".join(f"{self.judge}: {line}" for line in lines or ["nothing"])


@contextmanager
def passed_over() -> Iterator[None]:
    """Where nothing is asserted (``python -O``), a judge of steps goes on past what it has no entry of."""
    try:
        yield
    except KeyError:
        if __debug__:
            raise


def settled(history: History) -> History:
    """The history with one operation for each publication, however often it was tried with the same writes.

    A try that died and one that was answered are the same publication: it began with the first, and had ended when one
    of them was told so. Days whose value stays, as a compaction leaves them, are left out.

    Raises:
        ValueError: a day has the same value from two writes, so that a read would not say which it saw.
    """
    tries: dict[tuple[str, frozenset[tuple[Key, str]]], list[Operation]] = {}
    alone = []
    for operation in map(_changed, history):
        if operation.publication is None:
            alone.append(operation)
        else:
            key = operation.publication, frozenset(operation.writes.items())
            tries.setdefault(key, []).append(operation)
    found = History(tuple(sorted([*alone, *map(_one_of, tries.values())], key=lambda operation: operation.begin)))
    _refuse_equal_values(found)
    return found


def named(operation: Operation) -> str:
    """What a person calls it."""
    if operation.publication is not None:
        return f"publication {operation.publication}"
    what = "read" if operation.kind == "read" else "write past the log"
    end = "never answered" if operation.end is None else operation.end
    return f"{operation.process}'s {what} [{operation.begin}, {end}]"


def at(key: Key) -> str:
    """A day of a table."""
    return f"{key[0]} of {key[1]}"


def _changed(operation: Operation) -> Operation:
    kept = {key for key, value in operation.writes.items() if operation.replaced.get(key) == value}
    return operation if not kept else Operation(**(vars(operation) | _without(operation, kept)))


def _without(operation: Operation, keys: set[Key]) -> dict[str, object]:
    told = {"writes": operation.writes, "replaced": operation.replaced}
    return {name: {key: value for key, value in held.items() if key not in keys} for name, held in told.items()}


def _one_of(tries: list[Operation]) -> Operation:
    ranked = sorted(tries, key=lambda each: (("ok", "refused", "unknown").index(each.outcome), each.end or 0))
    return Operation(**(vars(ranked[0]) | {"begin": min(each.begin for each in tries)}))


def _refuse_equal_values(history: History) -> None:
    written: dict[tuple[Key, str], Operation] = {}
    for operation in history:
        for place in operation.writes.items():
            other = written.setdefault(place, operation)
            if other is not operation:
                raise ValueError(f"{at(place[0])} is {place[1]} by {named(other)} and by {named(operation)}")
