"""A name has one kept timeline, and what whoever names them was answered is so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    TimelineBase,
    create_timeline,
    find_timeline,
    kept_timelines,
    new_timeline_id,
)
from backfill_assets.lakehouse.storage import Storage
from backfill_assets_tests.simulator.judges.tables import Held

_FOLDER = "_named_timelines"


class NameJudge:
    """Follows the revisions of each name."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.answered: dict[str, NamedTimeline] = {}
        """The newest revision by each name that somebody has had as an answer."""
        self.may_go: set[str] = set()
        """The timelines that someone has tried to delete."""
        self._newest: dict[str, NamedTimeline] = {}
        self._known = Counter[str]()
        self._followed: object = None

    def follow(self) -> None:
        """A name passes on only from a timeline that is not kept."""
        if (changes := self.held.changes) == self._followed:
            return
        for name in self.held.names(_FOLDER):
            for after in self._revisions_after(name):
                before = self._newest.get(name)
                passed_on = before is None or before.deleted or not before.is_kept(after.changed_at)
                assert before is None or before.id == after.id or passed_on, f"{name} was taken without a word"
                self._newest[name] = after
        self._followed = changes

    def _revisions_after(self, name: str) -> Iterator[NamedTimeline]:
        while isinstance(data := self.held.contents.get(f"{_FOLDER}/{name}/{self._known[name]:06d}.json"), bytes):
            self._known[name] += 1
            yield NamedTimeline.model_validate_json(data)

    def told(self, timeline: NamedTimeline) -> None:
        before = self.answered.get(timeline.name)
        if before is None or before.revision < timeline.revision:
            self.answered[timeline.name] = timeline

    def check_answers(self, storage: Storage, now: datetime) -> None:
        """When nobody works any more: what they were answered is so, and a name that no kept timeline has is free."""
        self.follow()
        kept = {each.name: each.id for each in kept_timelines(storage, now)}
        for name, answered in self.answered.items():
            stays = answered.keep_until is None and answered.id not in self.may_go
            assert not stays or answered.id in kept.values(), f"{answered.id} is lost"
            newest = self._newest[name]
            assert newest.revision > answered.revision or newest == answered, f"{name} is another one"
        for name, id in kept.items():
            assert find_timeline(storage, name, now).id == id
        for name in {*self.answered, *kept}:
            assert _is_free(storage, name, now) == (name not in kept), f"{name} is free, and cannot be had, or has two"


def _is_free(storage: Storage, name: str, now: datetime) -> bool:
    wanted = NamedTimeline(id=new_timeline_id(now), name=name, made_at=now, changed_at=now, base=TimelineBase())
    try:
        create_timeline(storage, wanted)
    except InvalidRequest:
        return False
    return True
