"""What maintenance does, what it gives up for a person, and the notices that it sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backfill_assets.lakehouse.records import Prepared
from backfill_assets.notice_routes import Route
from backfill_assets.publish.delivery import NoticeDelivery
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.places import FailingPlace
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Part, Tone, Worded, size
from backfill_assets.text import format_count
from backfill_assets.upkeep.maintenance import Done

SEND = "backfill maintain --send-notices"


def maintenance_answer(done: Sequence[Done], *, dry_run: bool) -> Answer:
    """A line for each chore on a table; items are the timelines, days or files that it is about."""
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
    """What is about to be given up."""
    changes = prepared.publication.tables
    rows = [(each.table, len(each.days), Days.of(day.day for day in each.days)) for each in changes]
    publication = prepared.publication
    facts = (Fact("giving up", Id(publication.id)), Fact("kind", publication.kind))
    return Answer(parts=(*facts, Grid("tables", ("table", "days", "which days"), rows)))


def aborted_answer(publication: str, left: Mapping[str, str]) -> Answer:
    """``left`` are the tables that take no commit, and why."""
    facts = (Fact("publication", Id(publication)), Fact("outcome", "aborted"))
    rows = Grid("left as it is", ("table", "why"), list(left.items()), title="Left as it is", one_by_one=True)
    foreign = Line("Days of these tables that are shown as a foreign write are built again by a run.", Tone.WARN)
    return Answer(parts=(*facts, rows, *([foreign] if left else [])), next=("backfill status",) if left else ())


# ------------------------------------------------------------------ notices


def due_answer(due: Sequence[DueNotice]) -> Answer:
    """The notices that are not sent yet, with what is wrong with those that cannot be."""
    rows = [
        (each.key, each.notice.title, each.notice.reports, each.notice.approved_by, each.recipients, each.damage)
        for each in due
    ]
    columns = ("key", "notice", "reports", "approved by", "recipients", "damage")
    nothing: list[Part] = [] if due else [Line("No notice is due.")]
    return Answer(parts=(Grid("due", columns, rows), *nothing), next=(SEND,) if due else ())


def failing_line(place: FailingPlace) -> Line:
    """A place that takes no notices, and what a person does about it."""
    mend = f" {place.next_step.rstrip('.')}." if place.next_step else ""
    return Line(f"{place}.{mend} To try it now:", Tone.WARN, SEND)


def delivery_answer(found: NoticeDelivery, routes: Sequence[Route]) -> Answer:
    """``routes`` are those of BACKFILL_NOTICES."""
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
