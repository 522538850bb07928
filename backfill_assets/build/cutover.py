"""Cuts a campaign over: all of its tables in one publication, or nothing.

Days whose inputs moved since they were staged (late rows, a nightly run) are staged again first, and only those. What
another campaign has brought into the same days since is not overwritten: that is for a person to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.build.lake import Lake, Progress, provenance
from backfill_assets.build.outcome import RunInfo
from backfill_assets.build.shadow import HeldBack, ShadowedStep, ShadowStep, shadow
from backfill_assets.errors import GateFailed, InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.publication import Expected, Publication
from backfill_assets.lakehouse.publish import Moved, Published
from backfill_assets.lakehouse.timelines import timelines_of

_MOST_ATTEMPTS = 5


@dataclass(frozen=True)
class CutOver:
    """What was published, and what was staged again for it, by table."""

    published: Published
    days: Mapping[str, tuple[date, ...]]
    staged_again: Mapping[str, tuple[date, ...]]


def cut_over(
    lake: Lake,
    campaign: str,
    steps: Sequence[ShadowStep],
    run: RunInfo,
    progress: Progress,
    *,
    without_held_back: bool = False,
) -> CutOver:
    """Publish everything that ``campaign`` has staged of ``steps`` together.

    Days that are held back refuse it with :class:`GateFailed`, or stay as they are with ``without_held_back``; one that
    only comes to be held back while it is cut over refuses it in any case. Raises :class:`PublicationRefused` when
    another campaign was there first or main keeps moving, :class:`InvalidRequest` when nothing is staged.
    """
    lake.publisher.recover()
    before = _staged(lake, campaign, steps)
    accepted: set[tuple[str, date]] | None = None if without_held_back else set()
    for _ in range(_MOST_ATTEMPTS):
        done = shadow(lake, campaign, steps, run, progress)
        held = [each for step in done for each in step.held_back]
        accepted = {(each.table, each.day) for each in held} if accepted is None else accepted
        _refuse_held_back(campaign, [each for each in held if (each.table, each.day) not in accepted])
        _refuse_other_campaigns(lake, campaign, done, before)
        outcome = lake.publisher.publish(_request(lake, campaign, done, run))
        if isinstance(outcome, Published):
            _close(lake, campaign, steps)
            days = {table: each.staged for each in done for table in each.build.tables if each.staged}
            return CutOver(outcome, days, _again(done, before))
        progress(f"{campaign}: {_moved(outcome)}, staging what moved again")
    raise PublicationRefused(
        f"{campaign}: main moved {_MOST_ATTEMPTS} times while it was cut over.",
        hint="Another run is rewriting the same days; let it finish, then cut over again.",
    )


def _staged(lake: Lake, campaign: str, steps: Sequence[ShadowStep]) -> dict[tuple[str, str], str]:
    """The publication that each staged day was staged to replace."""
    found: dict[tuple[str, str], str] = {}
    for table in (table.name for each in steps for table in each.step.tables):
        for timeline in timelines_of(lake.storage, table, campaign):
            for day, staged in timeline.days().items():
                if staged.verdict is not None:
                    found.setdefault((table, day), staged.verdict.replaces)
    return found


def _refuse_held_back(campaign: str, held: Sequence[HeldBack]) -> None:
    if held:
        named = ", ".join(f"{each.table} {each.day}" for each in held[:5])
        raise GateFailed(
            f"{campaign}: {len(held)} day(s) are held back: {named}. Nothing was published.",
            hint="Mend their cause and run the plan again, or approve with --without-held-back to publish the others.",
        )


def _refuse_other_campaigns(
    lake: Lake, campaign: str, done: Sequence[ShadowedStep], before: Mapping[tuple[str, str], str]
) -> None:
    for table, day, expected in _expected(done):
        was = before.get((table, day), expected.publication)
        if expected.publication != was and (other := _campaign_of(lake, expected.publication)) not in ("", campaign):
            raise PublicationRefused(
                f"{table} {day} was brought by {other} ({expected.publication}) since {campaign} staged it.",
                hint="Plan again: the new plan starts from what the other campaign has published.",
            )


def _expected(done: Sequence[ShadowedStep]) -> Iterable[tuple[str, str, Expected]]:
    for each in done:
        for day, held in each.build.staged.items():
            for staged in held:
                yield staged.table, str(day), staged.pin.expected[staged.table, str(day)]


def _campaign_of(lake: Lake, publication: str) -> str:
    found = lake.publisher.log.find_prepared(publication) if publication else None
    return found[0].publication.provenance.campaign if found else ""


def _request(lake: Lake, campaign: str, done: Sequence[ShadowedStep], run: RunInfo) -> Publication:
    requests = [each.build.request() for each in done if each.build.staged]
    if not requests:
        raise InvalidRequest(f"{campaign} has staged nothing that main does not have already.")
    made = provenance(run, campaign).model_copy(update={"campaign": campaign})
    return Publication(
        id=lake.new_id(campaign),
        kind="replace",
        tables=tuple(change for request in requests for change in request.tables),
        inputs=tuple(read for request in requests for read in request.inputs if read.days),
        provenance=made,
    )


def _close(lake: Lake, campaign: str, steps: Sequence[ShadowStep]) -> None:
    for table in (table.name for each in steps for table in each.step.tables):
        for timeline in timelines_of(lake.storage, table, campaign):
            timeline.close()


def _again(done: Sequence[ShadowedStep], before: Mapping[tuple[str, str], str]) -> dict[str, tuple[date, ...]]:
    moved: dict[str, list[date]] = {}
    for each in done:
        for table in each.build.tables:
            fresh = [day for day in each.staged if day in each.build.computed and (table, str(day)) in before]
            if fresh:
                moved[table] = sorted(fresh)
    return {table: tuple(days) for table, days in moved.items()}


def _moved(moved: Moved) -> str:
    days = {f"{table} {day}" for table, found in (*moved.days.items(), *moved.inputs.items()) for day in found}
    return f"{len(days)} day(s) moved" + (f" ({'; '.join(moved.reasons[:2])})" if moved.reasons else "")
