"""Rollbacks and version switches since a plan, or since what an undo takes back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.campaign.published import course_of
from backfill_assets.lakehouse.campaign_journal import CampaignStep, campaign_of
from backfill_assets.lakehouse.timelines import newest_verdicts
from backfill_assets.model.declaration import ADOPTED, Step
from backfill_assets.plan.keep import rebuilt_steps
from backfill_assets.plan.records import Plan, Ranges, as_ranges
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Publisher
from backfill_assets.publish.rows import SWITCHING
from backfill_assets.state.rolled_back import rollbacks

Versions = Mapping[str, Collection[str]]


@dataclass(frozen=True)
class SwitchedSince:
    step: str
    current: str
    by: str
    brings: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return (
            f"{self.current} of {self.step} was made current since, by {self.by}: these days are by "
            f"{' and '.join(self.brings)} and stay so, new days are by {self.current}."
        )


@dataclass(frozen=True)
class LaterDecisions:
    rolled_back: Mapping[str, Mapping[str, Ranges]]
    switched: tuple[SwitchedSince, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        back = (
            f"Rolled back since, by {by}, and published by a yes: {table} {', '.join(days)}."
            for by, tables in self.rolled_back.items()
            for table, days in tables.items()
        )
        return (*back, *(each.sentence for each in self.switched))


def later_decisions(publisher: Publisher, plan: Plan, steps: Iterable[Step]) -> LaterDecisions:
    brings = {each.name: {each.version} for each in rebuilt_steps(plan)}
    return LaterDecisions(
        _rolled_back_since(publisher, plan), switched_since(publisher.log, plan.basis.sequence, brings, steps)
    )


def switched_since(
    log: PublicationLog, entry: int, brings: Versions, steps: Iterable[Step]
) -> tuple[SwitchedSince, ...]:
    """Steps whose last switch after ``entry`` is to another version than ``brings``, even as the undo of one."""
    head, declared = log.head(), {each.name: each.current for each in steps}
    rows = log.files().rows(["publication", "code_version"], after=entry, event=SWITCHING, table=brings).to_pylist()
    last = {row["table"]: row for row in rows if log.outcome(head, row["publication"]) == "done"}
    found = []
    for step, row in last.items():
        current = row["code_version"] or declared.get(step, "")
        if others := sorted({*brings[step]} - {"", ADOPTED, current}):
            found.append(SwitchedSince(step, current, row["publication"], tuple(others)))
    return tuple(found)


def _rolled_back_since(publisher: Publisher, plan: Plan) -> dict[str, dict[str, Ranges]]:
    log, known, campaign = publisher.log, rollbacks(publisher.storage), campaign_of(plan.id)
    planned = {table: step.days for step in rebuilt_steps(plan) for table in step.tables}
    verdicts = newest_verdicts(publisher.storage, list(planned), campaign)
    validated = course_of(log, campaign).done.get(CampaignStep.VALIDATE)
    found: dict[str, dict[str, list[date]]] = {}
    for key, state in log.day_states(log.head(), planned).items():
        by = state.origin.rolled_back_by if key.day in planned[key.table] else ""
        if not by:
            continue
        staged = verdicts.get(key)
        since = validated is not None and known.at(by) > validated.at
        if staged.replaces != state.publication if staged else since:
            found.setdefault(by, {}).setdefault(key.table, []).append(key.day)
    return {by: {table: as_ranges(days) for table, days in tables.items()} for by, tables in found.items()}
