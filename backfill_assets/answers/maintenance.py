"""Answers of maintenance: chores, aborted publications, mended logs, notices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backfill_assets.lakehouse.records import Prepared
from backfill_assets.notice_routes import Route
from backfill_assets.publish.delivery import NoticeDelivery
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.mend import MendPlan
from backfill_assets.publish.places import FailingPlace
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Part, Tone, Worded, size
from backfill_assets.text import format_count
from backfill_assets.upkeep.maintenance import Done

SEND = "backfill maintain --send-notices"


def maintenance_answer(done: Sequence[Done], *, dry_run: bool) -> Answer:
    rows = [
        (
            each.task.chore.value,
            each.task.table,
            Worded(each.task.items, f"{len(each.task.items):,}"),
            each.task.files or None,
            size(each.task.bytes or None),
            each.task.why,
            each.outcome,
        )
        for each in done
    ]
    chores = Grid("chores", ("chore", "table", "items", "files", "bytes", "why", "outcome"), rows)
    end = "Nothing was done: --dry-run." if dry_run else "Done."
    return Answer(parts=(chores, Line(end if done else "There is nothing to do.")))


# ------------------------------------------------------------------ given up


def abort_plan_answer(prepared: Prepared) -> Answer:
    changes = prepared.publication.tables
    rows = [(each.table, len(each.days), Days.of(day.day for day in each.days)) for each in changes]
    publication = prepared.publication
    facts = (Fact("giving up", Id(publication.id)), Fact("kind", publication.kind))
    return Answer(parts=(*facts, Grid("tables", ("table", "days", "which days"), rows)))


def aborted_answer(publication: str, left: Mapping[str, str]) -> Answer:
    facts = (Fact("publication", Id(publication)), Fact("outcome", "aborted"))
    rows = Grid("left as it is", ("table", "why"), list(left.items()), title="Left as it is", one_by_one=True)
    foreign = Line("Days of these tables that are shown as a foreign write are built again by a run.", Tone.WARN)
    return Answer(parts=(*facts, rows, *([foreign] if left else [])), next=("backfill status",) if left else ())


# ------------------------------------------------------------------ mended


def mend_plan_answer(plan: MendPlan) -> Answer:
    rows = [(version, Id(by) if by else "no publication") for version, by in plan.commits.items()]
    facts: list[Part] = [
        Fact("table", plan.table),
        Grid("commits", ("version", "made by"), rows, title="Commits to write"),
    ]
    if plan.checkpoint is not None:
        facts.append(Fact("checkpoint of", plan.checkpoint))
        facts.append(Line("Older versions of the table cannot be read any more, as after a clean-up.", Tone.WARN))
    if plan.aside:
        facts.append(Fact("kept aside", list(plan.aside)))
    if plan.foreign:
        facts.append(Fact("shown as a foreign write then", Days.of(plan.foreign)))
    return Answer(parts=tuple(facts))


def mended_answer(plan: MendPlan) -> Answer:
    if not plan.is_needed:
        line = Line(f"The log of {plan.table} can be read: there is nothing to mend.", Tone.GOOD)
    else:
        line = Line(f"{plan.table} can be read again, at the versions that it had.", Tone.GOOD)
    return Answer(parts=(Fact("mended", plan.is_needed), line), next=(f"backfill status {plan.table}",))


# ------------------------------------------------------------------ notices


def due_answer(due: Sequence[DueNotice]) -> Answer:
    rows = [
        (each.key, each.notice.title, each.notice.reports, each.notice.approved_by, each.recipients, each.damage)
        for each in due
    ]
    columns = ("key", "notice", "reports", "approved by", "recipients", "damage")
    nothing: list[Part] = [] if due else [Line("No notice is due.")]
    return Answer(parts=(Grid("due", columns, rows), *nothing), next=(SEND,) if due else ())


def failing_line(place: FailingPlace) -> Line:
    mend = f" {place.next_step.rstrip('.')}." if place.next_step else ""
    return Line(f"{place}.{mend} To try it now:", Tone.WARN, SEND)


def delivery_answer(found: NoticeDelivery, routes: Sequence[Route]) -> Answer:
    sent, how = format_count(len(found.sent), "notice"), ", ".join(dict.fromkeys(route.kind for route in routes))
    lines = [Line(f"Sent {sent} by {how}.", Tone.GOOD)] if found.sent else []
    lines += [Line(f"Waits for the end of quiet hours: {key}, for {route}.") for key, route in found.waiting]
    lines += [Line(f"Not sent yet: {key}: {reason}.", Tone.WARN, SEND) for key, reason in found.failed]
    lines += list(map(failing_line, found.failing))
    facts = (
        Fact("sent", list(found.sent)),
        Fact("failed", dict(found.failed)),
        Fact("waiting", dict(found.waiting)),
        Fact("failing", {each.name: str(each) for each in found.failing}),
    )
    return Answer(parts=(*facts, *(lines or [Line("No notice is due.")])))
