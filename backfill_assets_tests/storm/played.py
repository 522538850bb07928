"""Plays a storm from its beginning to its judgement, and says what became of it."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from backfill_assets.lakehouse.storage import Storage
from backfill_assets_tests.simulator.judges import Verdict
from backfill_assets_tests.storm.archive import Archive
from backfill_assets_tests.storm.judged import judge_folder
from backfill_assets_tests.storm.notes import LifeTold
from backfill_assets_tests.storm.processes import Storm
from backfill_assets_tests.storm.worker import Place

_PACE_OF_S3 = 3.0
_LOOKS_AT_S3 = 0.5


@dataclass(frozen=True)
class Report:
    """What a storm has shown. ``counts`` are of deeds by actor; ``tally`` of what happened in them."""

    seconds: float
    judged_seconds: float
    publications: int
    reads: int
    kills: Counter[str]
    stops: Counter[str]
    deeds: Counter[str]
    answers: Counter[tuple[str, str]]
    tally: Counter[str]
    operations: int
    verdicts: Sequence[Verdict]
    wrong: Sequence[str] = field(default_factory=list)

    @property
    def undecided(self) -> list[str]:
        return [f"{verdict.judge}: {each}" for verdict in self.verdicts for each in verdict.undecided]

    @property
    def seen(self) -> dict[str, int]:
        """By readers who pin nothing."""
        return {name: times for verdict in self.verdicts for name, times in verdict.seen.items()}

    def as_json(self) -> dict[str, object]:
        return {
            "seconds": round(self.seconds, 1),
            "judged_seconds": round(self.judged_seconds, 1),
            "publications": self.publications,
            "pinned_reads": self.reads,
            "operations": self.operations,
            "kills": dict(self.kills),
            "stops": dict(self.stops),
            "deeds": dict(self.deeds),
            "tally": dict(sorted(self.tally.items())),
            "wrong": list(self.wrong),
            "undecided": self.undecided,
            "seen_unpinned": self.seen,
        }

    def lines(self) -> Iterator[str]:
        yield f"{'actor':12} {'deeds':>7} {'ok':>7} {'refused':>8} {'killed':>7} {'stopped':>8}"
        for kind in sorted(self.deeds):
            ok, refused = self.answers[kind, "ok"], self.answers[kind, "refused"]
            yield f"{kind:12} {self.deeds[kind]:7} {ok:7} {refused:8} {self.kills[kind]:7} {self.stops[kind]:8}"
        yield ", ".join(f"{what} {count}" for what, count in sorted(self.tally.items()))
        yield (
            f"{self.kills.total()} kills and {self.stops.total()} stops in {self.seconds:.0f} s, {self.publications}"
            f" publications closed, {self.reads} pinned reads; judged in {self.judged_seconds:.0f} s."
        )
        yield from (f"Not decided: {each}." for each in self.undecided)
        yield from (f"Seen by readers who pin nothing: {name}, {times} times." for name, times in self.seen.items())
        yield from self.wrong or ["No judge has found anything."]


def storm(
    place: Place,
    actors: Sequence[str],
    seconds: float,
    every: float,
    *,
    patience: float = 60.0,
    enough: Callable[[Storm], bool] | None = None,
) -> Report:
    """Play one, and judge it."""
    begun = time.monotonic()
    kept = place.notes.parent / "kept"
    archive = Archive(Storage(place.root), kept, _LOOKS_AT_S3 if place.variables else 0.1)
    played = Storm(place, actors, seconds, every)
    archive.start()
    try:
        played.begin()
        played.play(enough)
        played.alone("settle-1")
        played.alone("end-1")
    finally:
        archive.finish()
    ended = time.monotonic()
    judgement, verdicts = judge_folder(place.notes, kept, seconds=patience)
    found = [str(anomaly) for verdict in verdicts for anomaly in verdict.anomalies]
    lives = judgement.lives
    if verdicts:
        (place.notes.parent / "history.jsonl").write_text(judgement.history.to_json())
    return Report(
        seconds=ended - begun,
        judged_seconds=time.monotonic() - ended,
        publications=len(judgement.log.outcomes),
        reads=sum(1 for life in lives for line in life.of("told") if life.kind == "reader" and line["outcome"] == "ok"),
        kills=played.kills,
        stops=played.stops,
        deeds=Counter(life.kind for life in lives for _ in life.of("deed")),
        answers=_answers(lives),
        tally=_tally(lives),
        operations=len(judgement.history) if verdicts else 0,
        verdicts=verdicts,
        wrong=[*played.wrong, *judgement.wrong, *found],
    )


def _answers(lives: Sequence[LifeTold]) -> Counter[tuple[str, str]]:
    return Counter((life.kind, line["outcome"]) for life in lives for line in life.lines if "outcome" in line)


def _tally(lives: Sequence[LifeTold]) -> Counter[str]:
    found = Counter[str]()
    for life in lives:
        for line in life.of("deed"):
            found.update(line["tally"])
    return found


@contextmanager
def place_of(folder: Path, seed: int, *, on_s3: bool) -> Iterator[Place]:
    """The lakehouse of a storm: below the folder, or in a bucket of a server that speaks S3."""
    notes = folder / "notes"
    notes.mkdir(parents=True)
    began = time.time()
    if not on_s3:
        yield Place(str(folder / "lakehouse"), notes, seed, began)
        return
    from backfill_assets_tests.s3_store import BUCKET, s3_server

    with s3_server() as variables:
        os.environ.update(variables)
        try:
            yield Place(f"s3://{BUCKET}/lakehouse", notes, seed, began, _PACE_OF_S3, variables)
        finally:
            for name in variables:
                del os.environ[name]
