"""The shadow backfill: days are staged by waves, and judged by the plan's limits and expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal

from backfill_assets import clock
from backfill_assets.campaign.breaker import computed_seconds, held_back_lines, input_of, judge, staged_contents
from backfill_assets.campaign.ends import allow_more, plan_again, record_stop, record_wave, shadow_report
from backfill_assets.campaign.notice import limit_reached
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.difference.compare import complete
from backfill_assets.difference.find import declared_of, find_difference
from backfill_assets.difference.letter import difference_answer
from backfill_assets.difference.verdict import Difference
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.limits import Exceeded, Limits
from backfill_assets.plan.keep import shadow_steps
from backfill_assets.publish.outbox import announce
from backfill_assets.rebuild.outcome import ADOPTED, FLAGGED
from backfill_assets.rebuild.walk import StepBuilt, shadow, staged_by
from backfill_assets.report.markdown import markdown
from backfill_assets.state.observed import observe

Held = dict[str, dict[date, DayContent]]


# ------------------------------------------------------------------ staged


def stage_wave(at: CampaignRun, number: int) -> list[StepBuilt]:
    at.timer.begin()
    wave = at.waves[number]
    at.progress(f"{at.plan.id}: wave {wave.name}, {len(wave.days)} of {len(at.waves[-1].so_far)} days")
    days = at.days_of_wave(wave)
    total = sum(map(len, days.values()))

    def watch(done: Sequence[StepBuilt]) -> None:
        require_within_limits(at, CampaignStep.SHADOW, done, f"wave {wave.name}: ", days=total)

    return stage(at, days, watch)


def stage(
    at: CampaignRun,
    days: Mapping[str, tuple[date, ...]] | None = None,
    watch: Callable[[Sequence[StepBuilt]], None] | None = None,
) -> list[StepBuilt]:
    """``days``: by step, default all. ``watch`` is called while days are computed, and may raise."""
    steps = shadow_steps(at.catalog, at.plan, days)
    at.staged.steps = shadow(at.lake, at.campaign, steps, at.run, lambda line: say_news(at, line), watch)
    return at.staged.steps


def say_news(at: CampaignRun, line: str) -> None:
    is_own = ADOPTED in line and bool(at.staged.steps)
    if is_own or line in at.staged.said:
        return
    if FLAGGED in line:
        at.staged.said.add(line)
    at.progress(line)


# ------------------------------------------------------------------ judged


def judge_wave(at: CampaignRun, number: int, done: Sequence[StepBuilt]) -> None:
    """Raises :class:`CampaignStopped` if a limit is exceeded or an expectation unmet."""
    where = f"wave {at.waves[number].name}: "
    warnings = require_within_limits(at, CampaignStep.SHADOW, done, where)
    # The next step judges the last wave together with all other days.
    is_last = number == len(at.waves) - 1
    if at.plan.expectations and not is_last and any(each.staged for each in done):
        # The timelines may hold days of later waves from before a restart: compare only ``done``.
        difference = find_difference(at.lake, at.plan, at.progress, staged=staged_by(done))
        require_expected(at, CampaignStep.SHADOW, difference, where)
    for each in warnings:
        at.progress(f"Warning: {each.sentence}")
    record_wave(at, number, shadow_report(done, warnings))


def require_within_limits(
    at: CampaignRun, step: CampaignStep, done: Sequence[StepBuilt], where: str = "", days: int = 0
) -> list[Exceeded]:
    """Stop at ``step`` if a limit is exceeded; returns the warnings, each announced once.

    Shares are of all ``days`` to be tried: it stops once the rest cannot bring one back within its limit.
    """
    found = judge_limits(at, done, at.options.limits, days)
    for each in found:
        attempt = f".{len(at.entries())}" if each.stops else ""
        key = f"{at.campaign}.{each.limit}-{each.allowed:f}{attempt}"
        announce(at.storage, key, limit_reached(at.plan, each, at.dataset))
    if stops := [each for each in found if each.stops]:
        hint = f"Fix the cause, then: backfill run {at.plan.id}. {allow_more(at.plan, stops[0])}"
        reason = f"{where}{stops[0].sentence}{_first_cause(stops[0], done)}"
        raise record_stop(at, step, reason, hint, shadow_report(done))
    return found


def judge_limits(at: CampaignRun, done: Sequence[StepBuilt], limits: Limits, days: int = 0) -> list[Exceeded]:
    started = next((each.at for each in reversed(at.entries()) if each.begins), clock.now())
    seconds = Decimal(str((clock.now() - started).total_seconds()))
    price = at.price_per_core_second
    money = None if price is None else computed_seconds(done) * at.plan.cost.cores * price
    staged, published = _figures(at, done)
    seen = input_of(done, staged, published, seconds, money)
    return judge(limits, replace(seen, tried=max(seen.tried, days)))


def require_expected(at: CampaignRun, step: CampaignStep, difference: Difference, where: str = "") -> None:
    if difference.unmet:
        at.progress(markdown(difference_answer(difference, declared_of(at.catalog.steps))))
        reason = f"Not as expected: {difference.unmet[0].expectation} (backfill status {at.plan.id} shows it)."
        report = shadow_report(at.staged.steps)
        raise record_stop(at, step, f"{where}{difference.sentence} {reason}", plan_again(at.plan), report)


def _first_cause(exceeded: Exceeded, done: Iterable[StepBuilt]) -> str:
    held = [each for step in done for each in step.held_back]
    causes = {"gates": [each for each in held if each.rules], "errors": [each for each in held if each.error]}
    return f" The first: {held_back_lines(found)[0]}." if (found := causes.get(exceeded.limit)) else ""


def _figures(at: CampaignRun, done: Iterable[StepBuilt]) -> tuple[Held, Held]:
    steps, observed, published = list(done), observe(at.storage, at.tables), published_contents(at)
    overlay, known = staged_by(steps).overlay, at.staged.figures
    staged: Held = {}
    before: Held = {}
    for name, days in staged_contents(steps).items():
        was = {day: content for day, content in published.get(name, {}).items() if day in days}
        table, version = at.catalog.table(name), observed.versions.get(name)
        staged[name] = complete(at.lake, table, days, version, overlay, known)
        before[name] = complete(at.lake, table, was, version, read=known)
    return staged, before


def published_contents(at: CampaignRun) -> dict[str, dict[date, DayContent | None]]:
    observed = observe(at.storage, at.tables)
    return {table: observed.contents(table) for table in at.tables}
