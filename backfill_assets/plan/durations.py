"""How long a campaign takes, step by step: as long as earlier ones took here, by their size; and what was spent. Pure.

A step of which no earlier campaign came to the end is unknown, and so is one whose size is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry
from backfill_assets.plan.records import Plan, PlannedStep, Span, about
from backfill_assets.report.answer import Grid, Quantity, Special, seconds

SPARK = "spark_started"
"""The time until Spark had started, of all processes that carried the campaign: in no other step."""
TIMED = (SPARK, *(step.value for step in CampaignStep if step is not CampaignStep.DECOMMISSION))
"""Without the last step: it comes when the rollback window is over."""
Journal = Sequence[JournalEntry]
Times = Mapping[str, Span | None]


def sizes(steps: Iterable[PlannedStep]) -> dict[str, int | None]:
    """What the time of a step grows with, None where that is unknown. Steps that are not here take what they take."""
    busy = [step for step in steps if step.rebuild]
    read = _sum(step.estimate.rows_read for step in busy if step.kind == "rebuild")
    written = _sum(step.estimate.rows_written for step in busy)
    return {
        CampaignStep.VERIFY_SOURCE: read,
        CampaignStep.SHADOW: written,
        CampaignStep.VALIDATE: written,
        CampaignStep.CUT_OVER: sum(_days(step) * len(step.tables) for step in busy),
        CampaignStep.DOWNSTREAM: written,
    }


def estimate_times(steps: Sequence[PlannedStep], journals: Iterable[Journal]) -> dict[str, Span | None]:
    """The time of every step but the last one, from the ``journals`` of earlier campaigns."""
    if not any(step.rebuild for step in steps):
        return {}
    known, now = [journal for journal in journals if journal], sizes(steps)
    return {step: Span.of([each for journal in known for each in _scaled(step, now, journal)]) for step in TIMED}


def _scaled(step: str, now: Mapping[str, int | None], journal: Journal) -> list[float]:
    """What the step took in an earlier campaign, as much longer as it is larger now; nothing if that is not known."""
    by = CampaignStep.CUT_OVER.value if step == SPARK else step
    run = _run_that_did(by, journal)
    if not run:
        return []
    seconds = spent_by_step(run).get(step, 0.0)
    if step not in now:
        return [seconds]
    then = [entry.spent.size for entry in run if entry.kind == "step" and entry.step == by and entry.spent][-1]
    size = now[step]
    return [] if size is None or not then else [seconds * size / then]


def _days(step: PlannedStep) -> int:
    return sum(len(DayRange.parse(text)) for ranges in step.rebuild.values() for text in ranges)


def _run_that_did(step: str, journal: Journal) -> Journal:
    """The entries of the last run, between rollbacks, that came to the end of ``step``; none if no run did.

    A run after a rollback that has only begun says little of how long it takes.
    """
    runs: list[list[JournalEntry]] = [[]]
    for entry in journal:
        if entry.kind == "rolled back":
            runs.append([])
        else:
            runs[-1].append(entry)
    did = (run for run in reversed(runs) if any(e.kind == "step" and e.step == step and e.spent for e in run))
    return next(did, [])


def _sum(found: Iterable[int | None]) -> int | None:
    values = list(found)
    return None if None in values else sum(value for value in values if value is not None)


# ------------------------------------------------------------------ what was spent


def spent_by_step(journal: Journal) -> dict[str, float]:
    """Seconds of every step that was timed, all tries together; waves are part of the shadow backfill.

    Of a campaign that runs again after a rollback, only what came after it counts.
    """
    found: dict[str, float] = {}
    for entry in _since_rolled_back(journal):
        if entry.spent is not None:
            step = entry.step if entry.kind in ("step", "stopped", "withdrawn") else CampaignStep.SHADOW.value
            found[step] = found.get(step, 0.0) + entry.spent.seconds - entry.spent.spark_start
            found[SPARK] = found.get(SPARK, 0.0) + entry.spent.spark_start
    return found


def _since_rolled_back(journal: Journal) -> Journal:
    ends = [at for at, entry in enumerate(journal) if entry.kind == "rolled back"]
    later = (journal[at + 1 :] for at in reversed(ends))
    return next((entries for entries in later if any(entry.spent for entry in entries)), journal)


def together(times: Times) -> Span | None:
    """From the start to the last notice. If one of the steps is unknown, so is their sum."""
    known = [each for each in times.values() if each is not None]
    return reduce(add, known) if known and len(known) == len(times) else None


# ------------------------------------------------------------------ in words


@dataclass(frozen=True)
class Estimated(Special):
    """What something is estimated to take: about so long for people, a median and a range for programs."""

    time: Span | None

    def plain(self) -> object:
        return None if self.time is None else self.time.model_dump()

    def shown(self, *, short: bool) -> str:
        return about(self.time)


def times_table(plan: Plan, journal: Journal = ()) -> Grid:
    """What each step of the campaign is estimated to take, and what it took so far."""
    spent = spent_by_step(journal)
    names = dict.fromkeys((*plan.times, *(step for step in TIMED if step in spent)))
    rows = [(_step_name(step), Estimated(plan.times.get(step)), _spent(spent.get(step))) for step in names]
    rows.append(("together", Estimated(together(plan.times)), _spent(sum(spent.values()) if spent else None)))
    columns = ("step", "estimated", "spent") if journal else ("step", "estimated")
    return Grid("times", columns, [row[: len(columns)] for row in rows], title="As a campaign")


def _spent(found: float | None) -> Quantity | None:
    return None if found is None else seconds(round(found, 2))


def step_line(plan: Plan, step: str, journal: Journal) -> str:
    """``source verified: spent 12 s, estimated about 14 s (8.0 s to 20 s)``"""
    spent = seconds_text(spent_by_step(journal).get(step))
    return f"{_step_name(step)}: spent {spent}, estimated {about(plan.times.get(step))}"


def seconds_text(spent: float | None) -> str:
    """Empty for a step that has not run."""
    if spent is None:
        return ""
    if spent < 10:
        return f"{spent:.1f} s"
    return f"{spent:.0f} s" if spent < 600 else f"{spent / 60:.1f} min"


def _step_name(step: str) -> str:
    return step.replace("_", " ")
