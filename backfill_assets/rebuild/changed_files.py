"""Compares the landed files of arrival days with those that raw has read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import Position
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import (
    LandedDay,
    LandedFile,
    LandingZone,
    landed_positions,
    position_id,
    raise_together,
)
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_format import arrival_day_of
from backfill_assets.state.stream_positions import parse_positions

Positions = Mapping[str, int]


@dataclass(frozen=True)
class ArrivalFiles:
    day: date
    unchanged: tuple[LandedFile, ...] = ()
    changed: tuple[LandedFile, ...] = ()
    new: tuple[LandedFile, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        return bool(self.changed or self.new or self.gone)

    @property
    def files(self) -> tuple[LandedFile, ...]:
        return (*self.unchanged, *self.changed, *self.new)


def compare_files(
    landing: LandingZone, source: Source, known: Positions, days: Iterable[date]
) -> tuple[ArrivalFiles, ...]:
    """Raises :class:`SourceUnreadable` for days without a folder, which may be unmounted (an empty one means nothing),
    and :class:`InvalidRequest` for a source of topics alone.
    """
    wanted = sorted(set(days))
    if not wanted:
        return ()
    read = _paths_read(source, known)
    _refuse_topics(landing, source, known, read)
    _refuse_without_folder(landing, source, wanted)
    landed: dict[date, list[LandedFile]] = {day: [] for day in wanted}
    for file in landing.files(source, wanted):
        landed[file.arrival_day].append(file)
    return tuple(_of_day(day, landed[day], known, read.get(day, ())) for day in wanted)


def moved_positions(source: str, found: Sequence[ArrivalFiles], known: Positions) -> tuple[Position, ...]:
    """Files that are gone count as never read."""
    files = [file for each in found for file in (*each.changed, *each.new)]
    after = {file.position[0]: file.position[1] for file in files}
    after |= {position_id(source, path): 0 for each in found for path in each.gone}
    return tuple(Position(id=id, before=known.get(id) or None, after=now) for id, now in sorted(after.items()))


def _of_day(day: date, files: Sequence[LandedFile], known: Positions, read: Sequence[str]) -> ArrivalFiles:
    by_kind: dict[str, list[LandedFile]] = {"unchanged": [], "changed": [], "new": []}
    for file in files:
        position, content = file.position
        was = known.get(position, 0)
        by_kind["unchanged" if was == content else "changed" if was else "new"].append(file)
    there = {file.path for file in files}
    return ArrivalFiles(
        day,
        **{kind: tuple(each) for kind, each in by_kind.items()},
        gone=tuple(path for path in read if path not in there),
    )


def _paths_read(source: Source, known: Positions) -> dict[date, list[str]]:
    found = dict[date, list[str]]()
    for path in sorted(path for path, content in landed_positions(source.name, known).items() if content):
        if (day := arrival_day_of(source, path)) is not None:
            found.setdefault(day, []).append(path)
    return found


def _refuse_topics(landing: LandingZone, source: Source, known: Positions, read: Mapping[date, object]) -> None:
    topics = parse_positions(source.name, known)
    if topics and not read and not landing.paths(source):
        raise InvalidRequest(
            f"The rows of raw_{source.name} are events of the topic {', '.join(sorted(topics))}, which is not read "
            "again.",
            hint="Raw has all of them. A correction is an event of its own: the newest version of a key wins.",
        )


def _refuse_without_folder(landing: LandingZone, source: Source, days: Sequence[date]) -> None:
    deliveries = landing.deliveries(source, days)
    raise_together(
        f"raw_{source.name}",
        [
            SourceUnreadable(
                f"Nothing has landed for {source.name} on {day} in {landing.root}.",
                hint="If the source has taken back all that it delivered on a day, leave an empty folder for it.",
            )
            for day in days
            if deliveries[day] == "missing"
        ],
    )


# ------------------------------------------------------------------ for plans that read the source again


def compare_days(
    zone: LandingZone, storage: Storage, source: Source, table: str, listed: Mapping[date, LandedDay]
) -> dict[date, LandedDay]:
    main = MainTable.open(storage, table)
    if main is None or not listed:
        return dict(listed)
    found = compare_files(zone, source, main.transactions(), listed)
    return {each.day: _with_changes(listed[each.day], each) for each in found}


def _with_changes(landed: LandedDay, found: ArrivalFiles) -> LandedDay:
    if not (found.changed or found.gone):
        return landed
    files = (f"{file.path}={file.content_hash}" for file in (*found.changed, *found.new))
    contents = fingerprints.physical([*files, *(f"{path} is gone" for path in found.gone)])
    return replace(landed, changed=tuple(file.path for file in found.changed), gone=found.gone, contents=contents)
