"""A folder of named timelines and all who name them: each is paused before every call to the storage, and may die."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    TimelineBase,
    _newest,
    _revisions,
    change_timeline,
    create_timeline,
    delete_timeline,
    find_timeline,
    kept_timelines,
    new_timeline_id,
    rename_timeline,
)
from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets_tests.protocol.actor import Actor
from backfill_assets_tests.protocol.deeds import Work, refusable
from backfill_assets_tests.protocol.staging import scratch

NOW = datetime(2017, 6, 1, 12, tzinfo=UTC)
AGE = timedelta(days=1)


@dataclass(frozen=True)
class SteppedStorage(Storage):
    """Calls ``reached`` before each call that others can be faster than."""

    reached: Callable[[str], None] = field(default=print, compare=False)

    def files(self, path: str, *, recursive: bool = False) -> list[StoredFile]:
        self.reached("list files")
        return super().files(path, recursive=recursive)

    def folders(self, path: str) -> list[str]:
        self.reached("list folders")
        return super().folders(path)

    def read_bytes(self, path: str) -> bytes:
        self.reached("read")
        return super().read_bytes(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.reached("put")
        return super().put_if_absent(path, data)

    def replace_bytes(self, path: str, data: bytes) -> None:
        self.reached("replace")
        super().replace_bytes(path, data)

    def delete(self, path: str) -> None:
        if not path.endswith(".tmp"):
            self.reached("delete")
        super().delete(path)


class Names:
    """What actors were answered is kept beside the lakehouse, and compared with what there is."""

    def __init__(self) -> None:
        self.root = tempfile.mkdtemp(prefix="names-", dir=scratch())
        self.storage = Storage(self.root)
        self.now = NOW
        self.actors: list[Actor] = []
        self.answered: dict[str, NamedTimeline] = {}
        """The newest revision by each name that an actor has had as its answer."""
        self.renamings = 0
        self.may_go: set[str] = set()
        """The timelines that someone has tried to delete."""

    def start(self, work: Callable[[Storage], object]) -> Actor:
        actor = Actor(f"actor {len(self.actors)}", self._stepped(work))
        self.actors.append(actor)
        return actor

    def _stepped(self, work: Callable[[Storage], object]) -> Work:
        return refusable(lambda actor: work(SteppedStorage(self.root, reached=actor.reached)))

    def alive(self) -> list[Actor]:
        return [actor for actor in self.actors if not actor.finished]

    # ---------------------------------------------------------------- deeds

    def made(self, name: str, *, ages: bool = False) -> NamedTimeline:
        """A timeline that is there from the beginning."""
        made = create_timeline(self.storage, self._new(name, ages=ages))
        self._answered(made)
        return made

    def _new(self, name: str, *, ages: bool = False) -> NamedTimeline:
        now, until = self.now, self.now + AGE if ages else None
        id = new_timeline_id(now)
        return NamedTimeline(id=id, name=name, made_at=now, changed_at=now, base=TimelineBase(), keep_until=until)

    def _answered(self, timeline: NamedTimeline) -> None:
        before = self.answered.get(timeline.name)
        if before is None or before.revision < timeline.revision:
            self.answered[timeline.name] = timeline

    def creating(self, name: str, *, ages: bool = False) -> Callable[[Storage], object]:
        made = self._new(name, ages=ages)
        return lambda storage: self._answered(create_timeline(storage, made))

    def renaming(self, timeline: NamedTimeline, name: str) -> Callable[[Storage], object]:
        self.renamings += 1
        at = self.now + timedelta(milliseconds=self.renamings)  # No two clocks are the same.
        return lambda storage: self._answered(rename_timeline(storage, timeline, name, at))

    def deleting(self, timeline: NamedTimeline) -> Callable[[Storage], object]:
        self.may_go.add(timeline.id)
        return lambda storage: delete_timeline(storage, timeline, self.now)

    def keeping_longer(self, timeline: NamedTimeline) -> Callable[[Storage], object]:
        longer = timeline.model_copy(update={"keep_until": None})
        return lambda storage: self._answered(change_timeline(storage, longer, "kept longer", self.now))

    def age(self) -> None:
        self.now += AGE

    # ------------------------------------------------------------ judgement

    def judge(self) -> None:
        """At this very moment: nothing but refusals, and a name passes on only from one that is not kept."""
        for actor in self.actors:
            if actor.error is not None:
                raise actor.error
        for name in self.storage.folders("_named_timelines"):
            revisions = _revisions(self.storage, name)
            for before, after in pairwise(map(revisions.at, revisions.numbers())):
                passed_on = before.deleted or not before.is_kept(after.changed_at)
                assert before.id == after.id or passed_on, f"{name} was taken without a word"

    def end(self) -> None:
        """All are through or dead: what they were answered is so, and a name that no kept timeline has is free."""
        for actor in self.actors:
            actor.crash()
        self.judge()
        kept = {each.name: each.id for each in kept_timelines(self.storage, self.now)}
        for answered in self.answered.values():
            stays = answered.keep_until is None and answered.id not in self.may_go
            assert not stays or answered.id in kept.values(), f"{answered.id} is lost"
        for name, answered in self.answered.items():
            newest = _newest(self.storage, name)
            assert newest is not None, f"{name} is gone"
            assert newest.revision > answered.revision or newest == answered, f"{name} is another one"
        for name, id in kept.items():
            assert find_timeline(self.storage, name, self.now).id == id
        for name in {"n", "m", *kept}:
            try:
                create_timeline(self.storage, self._new(name))
            except InvalidRequest:
                assert name in kept, f"{name} is free, and cannot be had"
            else:
                assert name not in kept

    def remove(self) -> None:
        shutil.rmtree(self.root)
