"""How long a campaign takes, step by step: a band from what earlier ones took here, and what was spent. Pure.

A step that took ``s`` seconds takes between ``s * min(1, r)`` and ``s * max(1, r)`` in a campaign that is ``r`` times
as large: part of it is fixed, part of it grows, and the shares are not known. Staging has two sizes, the rows that are
written and the pieces they are written in (a step of the plan in a wave), and takes between both shares. Of ``n``
campaigns the band goes from the 10 % quantile of the lower ends to the 90 % quantile of the upper ends, each further
out by ``1 / n``, because few campaigns do not show how busy a machine can be. Staging takes at least what its days took
when they were timed, as far as that is within the band.

As long as no campaign has taken a step here, its band is a default: wide, and declared as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import quantiles

from backfill_assets.days import Cadence, DayRange
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry
from backfill_assets.plan.records import Cost, Plan, PlannedStep, StepTime, days_of
from backfill_assets.plan.waves import waves
from backfill_assets.report.answer import Grid, Quantity, Special, seconds
from backfill_assets.text import UNKNOWN

SPARK = "spark_started"
"""The time until Spark had started, of all processes that carried the campaign: in no other step."""
TIMED = (SPARK, *(step.value for step in CampaignStep if step is not CampaignStep.DECOMMISSION))
"""Without the last step: it comes when the rollback window is over."""
_TIMED_DAYS_VARY = 1.25
_LOW, _HIGH = 0, -1
"""Of the nine cut points between tenths."""
Journal = Sequence[JournalEntry]
Times = Sequence[StepTime]


@dataclass(frozen=True)
class _Default:
    """Seconds at the least and at the most: fixed, for each million rows, and for each piece that is staged."""

    fixed: tuple[float, float]
    million_rows: tuple[float, float] = (0.0, 0.0)
    piece: tuple[float, float] = (0.0, 0.0)


_DEFAULTS = {
    # Two processes: one stages, one cuts over.
    SPARK: _Default((4, 40)),
    CampaignStep.ANNOUNCE.value: _Default((0, 3)),
    CampaignStep.VERIFY_SOURCE.value: _Default((1, 90), million_rows=(0.3, 15)),
    CampaignStep.PIN.value: _Default((0, 5)),
    CampaignStep.SHADOW.value: _Default((0, 10), piece=(0.3, 8)),
    CampaignStep.VALIDATE.value: _Default((3, 120), million_rows=(0.5, 20)),
    CampaignStep.CUT_OVER.value: _Default((1, 60)),
    CampaignStep.DOWNSTREAM.value: _Default((1, 120), million_rows=(0.3, 15)),
    CampaignStep.NOTIFY.value: _Default((0, 5)),
}


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


def pieces(steps: Sequence[PlannedStep]) -> int:
    """The steps of the plan in all waves together, by the shares that waves have by default."""
    rebuilt = [step for step in steps if step.rebuild and step.kind == "rebuild"]
    daily = [step for step in rebuilt if step.cadence is Cadence.DAILY] or rebuilt
    # Tables of a chain have much the same days: years of them are not worth listing for each.
    ranges = {text for step in daily for found in step.rebuild.values() for text in found}
    return len(rebuilt) * len(waves(days_of(ranges)))


def estimate_times(steps: Sequence[PlannedStep], cost: Cost, journals: Iterable[Journal]) -> tuple[StepTime, ...]:
    """The band of every step but the last one, from the ``journals`` of earlier campaigns."""
    if not any(step.rebuild for step in steps):
        return ()
    known, now = [journal for journal in journals if journal], sizes(steps)
    found = []
    for step in TIMED:
        size = now.get(step)
        if step == CampaignStep.SHADOW:
            found.append(_staging(cost, size, pieces(steps), known))
        elif step in now and size is None:
            found.append(StepTime(step=step))
        else:
            found.append(_of_step(step, size, known))
    return tuple(found)


def _days(step: PlannedStep) -> int:
    return sum(len(DayRange.parse(text)) for ranges in step.rebuild.values() for text in ranges)


def _of_step(step: str, size: int | None, journals: Sequence[Journal]) -> StepTime:
    samples = [sample for journal in journals if (sample := _sample(step, journal)) is not None]
    bands = [_scale(seconds, [_ratio(size, then)]) for seconds, then in samples if size is None or then]
    if bands:
        return _band_time(step, bands)
    default, millions = _DEFAULTS[step], (size or 0) / 1e6
    low, high = (fixed + rows * millions for fixed, rows in zip(default.fixed, default.million_rows, strict=True))
    return _step_time(step, low, high)


def _staging(cost: Cost, rows: int | None, pieces_now: int, journals: Sequence[Journal]) -> StepTime:
    step = CampaignStep.SHADOW.value
    if rows is None or cost.seconds is None or cost.unknown:
        return StepTime(step=step)
    bands = []
    for journal in journals:
        seconds, rows_then, pieces_then = _shadow_work(journal)
        if seconds is not None and pieces_then:
            bands.append(_scale(seconds, [_ratio(rows, rows_then), pieces_now / pieces_then]))
    if bands:
        found = _band_time(step, bands)
        low, high = found.low or 0.0, found.high or 0.0
        timed = min(cost.seconds / _TIMED_DAYS_VARY, high / _margin(bands))
        return _step_time(step, max(low, timed), high, found.campaigns)
    default = _DEFAULTS[step]
    least, most = (fixed + one * pieces_now for fixed, one in zip(default.fixed, default.piece, strict=True))
    return _step_time(step, cost.seconds / _TIMED_DAYS_VARY + least, cost.seconds * _TIMED_DAYS_VARY + most)


def _sample(step: str, journal: Journal) -> tuple[float, int | None] | None:
    """The seconds of the last time that the step was done, and the size that it had."""
    if step == SPARK:
        run = _run_that_did(CampaignStep.CUT_OVER, journal)
        return (spent_by_step(run)[SPARK], None) if run else None
    done = [entry.spent for entry in journal if entry.kind == "step" and entry.step == step and entry.spent]
    return (done[-1].seconds - done[-1].spark_start, done[-1].size) if done else None


def _shadow_work(journal: Journal) -> tuple[float | None, int | None, int]:
    """Seconds, rows and pieces of a shadow backfill that came to its end, interrupted attempts included."""
    run = _run_that_did(CampaignStep.SHADOW, journal)
    sizes_then = [e.spent.size for e in run if e.kind == "step" and e.step == CampaignStep.SHADOW and e.spent]
    if not sizes_then:
        return None, None, 0
    of_waves = {entry.wave: entry.spent.pieces for entry in run if entry.kind == "wave" and entry.spent}
    return spent_by_step(run).get(CampaignStep.SHADOW), sizes_then[-1], sum(of_waves.values())


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


def _ratio(now: int | None, then: int | None) -> float:
    return now / then if now is not None and then else 1.0


def _scale(seconds: float, ratios: Sequence[float]) -> tuple[float, float]:
    """A step with one size has a fixed part as well; with several, each of them is one."""
    shares = [1.0, *ratios] if len(ratios) == 1 else ratios
    return seconds * min(shares), seconds * max(shares)


def _band_time(step: str, bands: Sequence[tuple[float, float]]) -> StepTime:
    low = _tenths([low for low, _ in bands])[_LOW] / _margin(bands)
    high = _tenths([high for _, high in bands])[_HIGH] * _margin(bands)
    return _step_time(step, low, high, len(bands))


def _margin(bands: Sequence[object]) -> float:
    return 1 + 1 / len(bands)


def _tenths(values: Sequence[float]) -> list[float]:
    return quantiles(values, n=10, method="inclusive") if len(values) > 1 else [*values]


def _step_time(step: str, low: float, high: float, campaigns: int = 0) -> StepTime:
    return StepTime(step=step, low=round(low, 2), high=round(high, 2), campaigns=campaigns)


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


def together(times: Times) -> StepTime:
    """From the start to the last notice. If one of the steps is unknown, so is the upper end."""
    lows, highs = [each.low for each in times if each.low is not None], [each.high for each in times]
    return StepTime(
        step="together",
        low=round(sum(lows), 2),
        high=None if None in highs else round(sum(value for value in highs if value is not None), 2),
        campaigns=min((each.campaigns for each in times), default=0),
    )


# ------------------------------------------------------------------ in words


@dataclass(frozen=True)
class Band(Special):
    """What a step is estimated to take: one text for people, both ends for programs."""

    time: StepTime | None

    def plain(self) -> object:
        return None if self.time is None else self.time.model_dump(exclude={"step"})

    def shown(self, *, short: bool) -> str:
        return band(self.time)


def times_table(plan: Plan, journal: Journal = ()) -> Grid:
    """What each step of the campaign is estimated to take, and what it took so far."""
    spent = spent_by_step(journal)
    names = dict.fromkeys((*(each.step for each in plan.times), *(step for step in TIMED if step in spent)))
    rows = [(_step_name(step), Band(time_of(plan, step)), _spent(spent.get(step))) for step in names]
    everything = together(plan.times) if plan.times else None
    rows.append(("together", Band(everything), _spent(sum(spent.values()) if spent else None)))
    columns = ("step", "estimated", "spent") if journal else ("step", "estimated")
    return Grid("times", columns, [row[: len(columns)] for row in rows], title="As a campaign")


def _spent(found: float | None) -> Quantity | None:
    return None if found is None else seconds(round(found, 2))


def step_line(plan: Plan, step: str, journal: Journal) -> str:
    """``source verified: spent 12 s, estimated 8..20 s``"""
    spent = seconds_text(spent_by_step(journal).get(step))
    return f"{_step_name(step)}: spent {spent}, estimated {band(time_of(plan, step))}"


def basis_line(times: Times) -> str:
    """What the bands go by; a default is called one."""
    defaults = [_step_name(each.step) for each in times if not each.campaigns and each.low is not None]
    if all(not each.campaigns for each in times):
        return "These are defaults: no campaign was carried out here yet."
    most = max(each.campaigns for each in times)
    of = f"From {most} earlier campaign{'s' * (most != 1)}"
    return f"{of}; defaults for {', '.join(defaults)}." if defaults else f"{of}."


def time_of(plan: Plan, step: str) -> StepTime | None:
    return next((each for each in plan.times if each.step == step), None)


def band(found: StepTime | None) -> str:
    """``8..20 s``; ``unknown`` where there is nothing to go by, or ``at least 8 s`` where part of it is known."""
    if found is None or found.low is None:
        return UNKNOWN
    if found.high is None:
        return f"at least {seconds_text(found.low)}"
    if found.high < 10:
        return f"{found.low:.1f}..{found.high:.1f} s"
    if found.high < 600:
        return f"{found.low:.0f}..{found.high:.0f} s"
    return f"{found.low / 60:.0f}..{found.high / 60:.0f} min"


def seconds_text(spent: float | None) -> str:
    """Empty for a step that has not run."""
    if spent is None:
        return ""
    if spent < 10:
        return f"{spent:.1f} s"
    return f"{spent:.0f} s" if spent < 600 else f"{spent / 60:.1f} min"


def _step_name(step: str) -> str:
    return step.replace("_", " ")
