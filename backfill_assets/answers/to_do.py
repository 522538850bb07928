"""What needs a person now: one item for each cause, with one next step, most urgent first. Pure."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from backfill_assets.report.markdown import with_commands
from backfill_assets.state.diagnosis import Cause
from backfill_assets.text import escape_markdown, format_count
from backfill_assets.ui_addresses import asset_page
from backfill_assets.upkeep.effect import looked_after
from backfill_assets.upkeep.for_people import ManualAction, first_ranges
from backfill_assets.upkeep.incidents import Incident

SHOWN_AT_ONCE = 999
"""Characters of Markdown that Dagster's UI shows in place."""
MOST_ITEMS = 12
_MORE = "and 1,000,000 more"


class Urgency(enum.IntEnum):
    SAFETY = 0
    """Unchecked or unreadable: other faults may be hidden."""
    WRONG = 1
    LOOKED_AFTER = 2
    DECISION = 3
    CHOICE = 4


@dataclass(frozen=True)
class ToDo:
    title: str
    urgency: Urgency
    why: str = ""
    page: str = ""
    do: str = ""
    opens: str = ""
    command: str = ""


def most_urgent_first(found: Iterable[ToDo]) -> list[ToDo]:
    return sorted(found, key=lambda each: each.urgency)


# ------------------------------------------------------------------ items


def of_action(
    action: ManualAction,
    incidents: Collection[Incident],
    new_plan: Callable[[str, str], str],
    start_plan: Callable[[str], str],
) -> ToDo:
    """What no repair solves, with its incident's plan and owner. ``new_plan`` and ``start_plan`` make links."""
    days, cause = first_ranges(action.days), action.diagnosis.cause if action.diagnosis else None
    known = next((each for each in incidents if _is_about(each, action, cause)), None)
    title = f"{action.table} {days}: {cause}" if cause else f"{action.table} {days}"
    page = asset_page("incidents") if known else asset_page(action.table, str(action.days[0]))
    why = "" if action.why == cause else action.why
    item = ToDo(title, _urgency(action, known), why, page, action.next_step)
    if known and known.plan:
        item = replace(item, do="start its plan", opens=start_plan(known.plan), command=f"backfill run {known.plan}")
    elif action.plan:
        words, _, command = action.next_step.partition(": ")
        item = replace(item, do=words, opens=new_plan(action.table, str(action.plan)), command=command)
    if known and (by := looked_after(known)):
        item = replace(item, why=f"{why} (looked after by {by})")
    return item


def _is_about(incident: Incident, action: ManualAction, cause: Cause | None) -> bool:
    return (incident.table, incident.cause) == (action.table, cause) and not {*incident.days}.isdisjoint(action.days)


def _urgency(action: ManualAction, known: Incident | None) -> Urgency:
    if action.diagnosis is None:
        return Urgency.CHOICE
    if known and known.acknowledged:
        return Urgency.LOOKED_AFTER
    return Urgency.SAFETY if action.diagnosis.severity == "critical" else Urgency.WRONG


# ------------------------------------------------------------------ how they look


def entries(items: Sequence[ToDo], name: str, all_of_them: str) -> dict[str, str]:
    """Markdown by label, each short enough to be shown in place; all but the first are numbered."""
    if not items:
        return {name: "Nothing."}
    shown = most_urgent_first(items)[:MOST_ITEMS]
    found = {f"{name}, {number}" if len(shown) > 1 else name: as_markdown(each) for number, each in enumerate(shown, 1)}
    if more := len(items) - len(shown):
        found[f"{name}, more"] = f"{format_count(more, 'more thing')}, less urgent: {all_of_them}."
    return found


def as_markdown(item: ToDo, most: int = SHOWN_AT_ONCE) -> str:
    """The reason is cut to fit, title and step are whole."""
    title = f"**{escape_markdown(item.title)}**"
    head = f"[{title}]({item.page})" if item.page else title
    do = _step(item)
    room = most - len(head) - len(do) - len("\n\n: .")
    why = _cut(item.why.strip().rstrip("."), room)
    said = f"{head}: {why}{'' if why.endswith('.') else '.'}" if why else f"{head}."
    return "\n\n".join(filter(None, (said, do)))


def _cut(text: str, room: int) -> str:
    if len(whole := escape_markdown(text)) <= room:
        return whole
    words = [escape_markdown(each) for each in text.split()]
    ends = accumulate(len(each) + 1 for each in words)
    return " ".join([*(each for each, end in zip(words, ends, strict=True) if end <= room - len("...")), "..."])


def _step(item: ToDo) -> str:
    words = with_commands(item.do)
    linked = f"[{words}]({item.opens})" if item.opens else words
    command = f"`{item.command}`" if item.command else ""
    between = ", or in a terminal: " if item.opens else " "
    said = between.join(filter(None, (linked, command)))
    return f"To do: {said}" if said else ""


def fitting(blocks: Sequence[str], between: str = "\n\n", most: int = SHOWN_AT_ONCE) -> str:
    if len(whole := between.join(blocks)) <= most:
        return whole
    ends = accumulate(len(each) + len(between) for each in blocks)
    shown = [each for each, end in zip(blocks, ends, strict=True) if end <= most - len(_MORE)]
    return between.join([*shown, f"and {len(blocks) - len(shown):,} more"])
