"""The head of the publication log: what every commit to it carries, so that nothing has to be searched for."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from operator import not_
from typing import Any

from pydantic import Field as ModelField
from pydantic import ValidationError

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.records import CurrentVersion, Outcome, Publication, Record

READER, WRITER = 1, 2
"""The formats of the head that this version knows. A change that older processes would misread raises both numbers.

2 is for logs with a switch: a process that does not know switches would drop ``current`` from the head, and cannot
read such an entry in full.
"""
BEFORE_SWITCHES = 1


class OpenEntry(Record):
    """A publication that was prepared and not yet closed; ``file`` holds it in full."""

    publication: str
    file: str
    writes: frozenset[str]
    reads: frozenset[str]
    aborting: bool = False


class HeadState(Record):
    """The part of the head that is stored in every commit."""

    open: Mapping[str, OpenEntry] = ModelField(default_factory=dict)
    versions: Mapping[str, int] = ModelField(default_factory=dict)
    """The map of the last closed entry: Delta version by table."""
    index: str = ""
    """A file with the newest state of every day as of some entry; ``since`` lists the entries after it."""
    since: tuple[str, ...] = ()
    outcomes: Mapping[str, Outcome] = ModelField(default_factory=dict)
    """How the newest publications ended, newest last."""
    reclaiming: Mapping[str, str] = ModelField(default_factory=dict)
    """Open reclaim intents: the file that lists what is being deleted, by intent."""
    promised: Mapping[str, datetime] = ModelField(default_factory=dict)
    """Until when publications can be rolled back, by the rollback window in days that was promised with them."""
    due: Mapping[str, str] = ModelField(default_factory=dict)
    """Publications that are done and whose notice is not delivered yet: the file that holds each in full."""
    reclaimed: str = ""
    """The newest reclaim intent, open or carried out."""
    turns: Mapping[str, datetime] = ModelField(default_factory=dict)
    """Publications that lost several rounds of PREPARE and ask others to let them pass, until when, oldest first."""
    current: Mapping[str, CurrentVersion] = ModelField(default_factory=dict, exclude_if=not_)
    """The versions of the logic that publications made current, by step; the declared one counts for all others."""
    reader: int = READER
    """The oldest version of this format whose processes can read the log."""
    writer: int = BEFORE_SWITCHES
    """The oldest version of this format whose processes may append to it."""

    def news_of(self, tables: Collection[str]) -> tuple[object, ...]:
        """What entries on the log change for ``tables``: equal values say that no publication touched them since."""
        touching = {id: entry.aborting for id, entry in self.open.items() if entry.writes & set(tables)}
        return {table: self.versions.get(table) for table in tables}, touching

    def window_days(self, setting: int, now: datetime) -> int:
        """For how many days files and versions are kept: the ``setting``, or a longer window that was promised."""
        return max(setting, *(int(days) for days, until in self.promised.items() if until >= now), 0)

    def promising(self, days: int, now: datetime) -> HeadState:
        """This head after a window of ``days`` was promised at ``now``."""
        running = {each: until for each, until in self.promised.items() if until >= now}
        return self.model_copy(update={"promised": {**running, str(days): now + timedelta(days=days)}})

    @property
    def switches(self) -> dict[str, str]:
        """The versions of ``current``, by step."""
        return {step: each.version for step, each in self.current.items()}

    def for_writers_of(self, publication: Publication) -> HeadState:
        """This head as one that only processes write to that know what ``publication`` is made of."""
        return self.model_copy(update={"writer": WRITER}) if publication.switches else self

    def switched_by(self, publication: Publication) -> dict[str, object]:
        """What changes of this head once ``publication`` is done, by the versions that it makes current."""
        versions = {step: switch.version for step, switch in publication.switches.items()}
        return {"current": with_switches(self.current, publication.id, versions)} if versions else {}


def with_switches(
    current: Mapping[str, CurrentVersion], publication: str, versions: Mapping[str, str]
) -> dict[str, CurrentVersion]:
    """``current`` after ``publication`` switched steps to ``versions``; an empty one leaves the step as declared."""
    switched = {step: CurrentVersion(version=version, publication=publication) for step, version in versions.items()}
    both = {**current, **switched}
    return {step: both[step] for step in sorted(both) if both[step].version}


def named_files(state: HeadState) -> Iterable[str]:
    """The files of the log that the head names: they keep their names and their rows."""
    yield from (state.index, *state.since, *state.reclaiming.values(), *state.due.values())
    yield from (entry.file for entry in state.open.values())


def parse_head(text: str) -> HeadState:
    """The head as a commit carries it; what a newer writer added is left out if that allows older readers.

    Raises :class:`LakehouseUnusable` if this version cannot read it.
    """
    try:
        state = HeadState.model_validate_json(text)
    except ValidationError:
        state = _of_newer_writer(json.loads(text))
    if state.reader > READER:
        raise _too_new("read", state.reader, READER)
    return state


def _of_newer_writer(fields: dict[str, Any]) -> HeadState:
    if fields.get("reader", READER) > READER:
        raise _too_new("read", fields["reader"], READER)
    if fields.get("writer", WRITER) > WRITER:
        fields = _known_fields(HeadState, fields)
        fields["open"] = {id: _known_fields(OpenEntry, entry) for id, entry in fields.get("open", {}).items()}
    return HeadState.model_validate(fields)


def require_writable(state: HeadState) -> None:
    """Raise :class:`LakehouseUnusable` if the log was written by a version to which this one may not write."""
    if state.writer > WRITER:
        raise _too_new("write to", state.writer, WRITER)


def _known_fields(record: type[Record], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name in record.model_fields}


def _too_new(deed: str, needed: int, ours: int) -> LakehouseUnusable:
    return LakehouseUnusable(
        f"A newer version of backfill-assets wrote this lakehouse: to {deed} its log takes format {needed},"
        f" and this process has format {ours}.",
        hint="Stop this process, install the newer version, and start it again. Nothing was changed.",
    )
