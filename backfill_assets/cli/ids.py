"""Ids, completed from their beginning and shown shortened."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backfill_assets import clock
from backfill_assets.cli.wiring import current_catalog, open_storage
from backfill_assets.errors import InvalidRequest
from backfill_assets.text import format_count, format_first

if TYPE_CHECKING:
    from backfill_assets.lakehouse.named_timelines import NamedTimeline
    from backfill_assets.lakehouse.records import Prepared
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.publish.publisher import Publisher

LEAST_TYPED = 4
LEAST_SHOWN = 7
_WHOLE = re.compile(
    r"(?P<kind>(?:plan|campaign)-)(?P<hash>[0-9a-f]{16})"
    r"|\d{8}t\d{6}-.+-(?P<made>[0-9a-f]{8})|rollback-\d{8}t\d{6}-(?P<undo>[0-9a-f]{6})"
    r"|timeline-\d{8}t\d{6}-(?P<named>[0-9a-f]{8})"
)
_LONGEST_VERSION = 6
_MOST_NAMED = 5
_HEX = re.compile(r"[0-9a-f]{4,16}")
MAIN = "main"


# ------------------------------------------------------------------ short, as git has them


def is_whole(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None


def distinguishing_part(id: str) -> str:
    found = _WHOLE.fullmatch(id)
    return next((part for part in found.group("hash", "made", "undo", "named") if part), "") if found else ""


def matching(text: str, ids: Collection[str], names: Collection[str] = ()) -> list[str]:
    """``text`` itself, or the ids that it or their hash begins with."""
    if text in ids or text in names:
        return [text]
    if len(text) < LEAST_TYPED:
        return []
    made = (id for id in ids if (part := distinguishing_part(id)) and (id.startswith(text) or part.startswith(text)))
    return sorted([*made, *(name for name in names if name.startswith(text))])


def complete(text: str, ids: Collection[str], noun: str, names: Collection[str] = ()) -> str:
    """The one id that ``text`` means, or ``text`` if none; raises :class:`InvalidRequest` if several."""
    found = matching(text, ids, names)
    if len(found) <= 1:
        return found[0] if found else text
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    raise InvalidRequest(
        f"{text!r} is the beginning of {format_count(len(found), noun)}: {', '.join(found[:_MOST_NAMED])}{more}.",
        hint="Type more characters of the one that you mean.",
    )


@dataclass(frozen=True)
class ShortIds:
    """Shortens ids to what is unambiguous among ``known``, at least 7 characters of the hash."""

    known: Collection[str]
    _found: dict[str, str] = field(default_factory=dict)

    def __call__(self, id: str) -> str:
        if id not in self._found:
            self._found[id] = self._short(id)
        return self._found[id]

    def _short(self, id: str) -> str:
        found, part = _WHOLE.fullmatch(id), distinguishing_part(id)
        before = (found["kind"] or "") if found else ""
        sizes = range(min(LEAST_SHOWN, len(part)), len(part) + 1) if part else ()
        texts = (f"{before}{part[:size]}" for size in sizes)
        # Digits alone would be read as a version where a moment is typed.
        return next((text for text in texts if matching(text, self.known) == [id] and not text.isdigit()), id)


# ------------------------------------------------------------------ shown


def all_ids() -> ShortIds:
    storage = open_storage()
    named = [each.id for each in timelines(storage)]
    return ShortIds(frozenset([*publications(storage), *plans(storage), *campaigns(storage), *named]))


# ------------------------------------------------------------------ what there is


def publications(storage: Storage) -> list[str]:
    from backfill_assets.state.reading import publication_ids

    return publication_ids(storage)


def plans(storage: Storage) -> list[str]:
    from backfill_assets.lakehouse.plans import plan_ids

    return plan_ids(storage)


def campaigns(storage: Storage) -> list[str]:
    from backfill_assets.lakehouse.campaign_journal import campaign_of

    return [campaign_of(plan) for plan in plans(storage)]


def timelines(storage: Storage) -> list[NamedTimeline]:
    from backfill_assets.lakehouse.named_timelines import kept_timelines

    return kept_timelines(storage, clock.now())


# ------------------------------------------------------------------ typed


def find_publication(storage: Storage, text: str) -> str:
    return text if is_whole(text) else complete(text, publications(storage), "publication")


def find_plan(storage: Storage, text: str) -> str:
    """The plan that ``text`` names or begins, also by its campaign; raises :class:`InvalidRequest`."""
    from backfill_assets.lakehouse.campaign_journal import plan_of
    from backfill_assets.lakehouse.plans import is_plan_id
    from backfill_assets.lakehouse.timelines import CAMPAIGN

    asked = plan_of(text) if text.startswith(CAMPAIGN) else text
    known = plans(storage)
    found = complete(asked, known, "plan")
    if found in known or is_plan_id(found):
        return found
    raise _no_such_plan(storage, text, known)


def is_plan(text: str) -> bool:
    from backfill_assets.lakehouse.timelines import CAMPAIGN

    if text.startswith(("plan-", CAMPAIGN)):
        return True
    if text in current_catalog().table_names or not _HEX.fullmatch(text):
        return False
    return bool(matching(text, plans(open_storage())))


def find_timeline(storage: Storage, text: str, *, change: bool = False) -> str:
    """The timeline by its name, or the beginning of its hash or name. A ``change`` needs the whole name."""
    if text.startswith(("plan-", "campaign-")):
        return _campaign_named(storage, text)
    known = timelines(storage)
    names = {each.name for each in known}
    if text in names:
        return text
    by_id = {each.id: each.name for each in known}
    found = complete(text, by_id, "timeline", () if change else names)
    return by_id.get(found, found)


def _campaign_named(storage: Storage, text: str) -> str:
    from backfill_assets.lakehouse.campaign_journal import campaign_of, plan_of

    asked = text if text.startswith("plan-") else plan_of(text)
    return campaign_of(asked if is_whole(asked) else complete(asked, plans(storage), "plan"))


def find_moment(storage: Storage, text: str) -> str:
    from backfill_assets.state.view import BEFORE, is_version, parse_time

    if text.endswith(BEFORE):
        return f"{find_publication(storage, text.removesuffix(BEFORE))}{BEFORE}"
    if len(text) <= _LONGEST_VERSION if is_version(text) else parse_time(text) is not None:
        return text
    return find_publication(storage, text)


def find_state(storage: Storage, text: str) -> str:
    if text == MAIN:
        return text
    found = find_timeline(storage, text)
    return found if found != text or found in {each.name for each in timelines(storage)} else find_moment(storage, text)


def find_undoable(storage: Storage, text: str) -> str:
    """A publication, or a plan or campaign by name or hash.

    A plan and its campaign share a hash: only the campaign's prefix means the campaign.
    """
    if is_whole(text):
        return text
    known = publications(storage)
    others = campaigns(storage) if text.startswith("camp") else []
    if text in known:
        return text
    found = complete(text, [*known, *plans(storage), *others], "id")
    if found == text and text.startswith("plan"):
        raise _no_such_plan(storage, text, plans(storage))
    return found


def campaign_meant(text: str) -> str:
    from backfill_assets.lakehouse.campaign_journal import campaign_of
    from backfill_assets.lakehouse.plans import is_plan_id
    from backfill_assets.lakehouse.timelines import CAMPAIGN

    campaign = campaign_of(text) if is_plan_id(text) else text
    return campaign if campaign.startswith(CAMPAIGN) else ""


def prepared(publisher: Publisher, publication: str) -> Prepared:
    from backfill_assets.state.reading import unknown_publication

    found = publisher.log.find_prepared(publication)
    if found is None:
        raise unknown_publication(publisher.storage, publication)
    return found[0]


def _no_such_plan(storage: Storage, text: str, known: list[str]) -> InvalidRequest:
    from difflib import get_close_matches

    show, part = ShortIds(frozenset(known)), text.removeprefix("plan-").removeprefix("campaign-")
    heads = {distinguishing_part(id)[: max(len(part), 1)]: show(id) for id in known}
    near = [heads[head] for head in get_close_matches(part, heads, n=3, cutoff=0.6)]
    listed = f"Plans: {format_first([*map(show, known)], _MOST_NAMED)}. " if known else "No plan was made yet: "
    hint = f"Did you mean {' or '.join(near)}?" if near else f"{listed}backfill plan TABLE --days A..B makes one."
    return InvalidRequest(f"There is no plan {text!r} in {storage.root}.", hint=hint)
