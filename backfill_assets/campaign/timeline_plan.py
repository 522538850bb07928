"""The plan that publishes a timeline, whose staged days it adopts. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date

from backfill_assets.campaign.course import CampaignState
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import NO_DAYS, Days, expand_tables, steps_of
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Plan, PlanRequest, as_ranges, days_of
from backfill_assets.state.diagnosis import OTHER_CODE, Cause, in_a_word
from backfill_assets.text import format_count, format_first, format_range, format_ranges

_MOST_RANGES = 3


def timeline_request(
    steps: Sequence[Step],
    timeline: NamedTimeline,
    differing: Mapping[str, Collection[date]],
    table: str = "",
    expectations: tuple[Expectation, ...] = (),
    same_logic: Days = NO_DAYS,
) -> PlanRequest:
    """The plan for the days of ``timeline`` that differ from main's (``differing``, by table).

    The target is the table from which all other differing ones are computed; ``table`` selects one of several.
    ``same_logic`` days are built alike on both. Raises :class:`InvalidRequest` if the timeline has not gone forward,
    nothing differs, ``table`` differs through its inputs alone or not, or one plan cannot cover all.
    """
    if not timeline.versions and not timeline.days:
        raise InvalidRequest(
            f"{timeline.name} has no days of its own: there is nothing to publish.",
            hint=f"backfill run TABLE --days A..B --on {timeline.name} builds some there.",
        )
    if not timeline.versions:
        raise InvalidRequest(
            f"{timeline.name} has not gone forward: its days are what they were, from inputs of that time.",
            hint=f"backfill timeline forward {timeline.name}. To put back what was published: backfill rollback "
            "PUBLICATION",
        )
    differ = {name: days for name, days in differing.items() if days}
    if not differ:
        raise InvalidRequest(
            f"{timeline.name} holds what is published: there is nothing to publish.",
            hint=f"backfill timeline show {timeline.name}",
        )
    if table and table not in differ:
        raise InvalidRequest(f"{table} does not differ on {timeline.name}.", hint=f"These do: {', '.join(differ)}.")
    if table:
        _refuse_without_inputs(steps, timeline, differ, table, same_logic)
    firsts = [table] if table else _first_tables(steps, differ)
    if len(firsts) > 1:
        raise InvalidRequest(
            f"{timeline.name} differs in {' and '.join(firsts)}, and neither is computed from the other.",
            hint="A plan has one target. Publish one after the other: --table TABLE",
        )
    (target,) = firsts
    days = DayRange(min(differ[target]), max(differ[target]))
    (step,) = steps_of(steps, [target])
    return PlanRequest(
        target=target,
        days=format_range(days),
        version=timeline.versions.get(step.name, ""),
        leaves=as_ranges(set(step.cadence.starts(days)).difference(differ[target])),
        expectations=expectations,
    )


def _refuse_without_inputs(
    steps: Sequence[Step],
    timeline: NamedTimeline,
    differ: Mapping[str, Collection[date]],
    table: str,
    same_logic: Days,
) -> None:
    (step,) = steps_of(steps, [table])
    above = set(expand_tables(steps, [table], upstream=True)) - {*step.table_names}
    firsts, by_inputs = _first_tables(steps, differ), set(differ[table]) <= set(same_logic.get(table, ()))
    if by_inputs and (left_out := [name for name in firsts if name in above]):
        others = "" if len(firsts) == 1 else f" --table {left_out[0]}"
        raise InvalidRequest(
            f"{table} differs on {timeline.name} only through {' and '.join(left_out)}: without that, nothing of "
            f"{table} would change.",
            hint=f"Publish both: backfill timeline publish {timeline.name}{others}",
        )


def left_sentence(asked: PlanRequest, timeline: str, statuses: Mapping[date, Cause | None]) -> str:
    """What happens to days of the target that are of other code and outside the plan.

    A day of equal rows by both versions keeps its version. ``statuses`` are the target's before publishing.
    """
    planned = set(DayRange.parse(asked.days)) - set(days_of(asked.leaves))
    left = sorted(day for day, status in statuses.items() if status in OTHER_CODE and day not in planned)
    if not left:
        return ""
    stays = "stays as it is" if len(left) == 1 else "stay as they are"
    span = format_range(DayRange(left[0], left[-1]))
    words = sorted({in_a_word(statuses[day]) for day in left})
    return (
        f"{format_count(len(left), 'day')} of {asked.target} {stays}, {format_first(words, 2)}: "
        f"{timeline} holds nothing else for {format_ranges(left, _MOST_RANGES)}. "
        f"To have the current version there too, afterwards: backfill run {asked.target}+ --days {span}"
    )


def plan_begun(asked: PlanRequest, open_plans: Iterable[tuple[Plan, CampaignState]]) -> Plan | None:
    """The open, not yet approved plan for the same request: a second would leave it behind."""
    for plan, state in open_plans:
        published = state.approved or state.rolled_back or CampaignStep.CUT_OVER in state.done
        if plan.asked == asked and not published:
            return plan
    return None


def _first_tables(steps: Sequence[Step], differ: Collection[str]) -> list[str]:
    concerned = steps_of(steps, differ)
    tables = [next(name for name in step.table_names if name in differ) for step in concerned]
    below = {name: set(expand_tables(steps, [name], downstream=True)) - {name} for name in tables}
    return [name for name in tables if not any(name in below[other] for other in tables)]
