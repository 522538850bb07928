"""Every table as a timeline shows it, as if it were main."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.publication.publisher import Publisher
from backfill_assets.published.moments import observe_at
from backfill_assets.published.observed import LogView
from backfill_assets.published.reading import read_switches
from backfill_assets.published.snapshot import Snapshot
from backfill_assets.published.standing import gc_paused
from backfill_assets.timeline.places import find_place
from backfill_assets.timeline.view import timeline_view


@dataclass(frozen=True)
class ObservedTimeline:
    """A timeline, and what the logs would say if it were main."""

    timeline: NamedTimeline
    view: LogView

    def own(self, table: str) -> set[date]:
        return set(self.timeline.held(table))


def observe_timeline(publisher: Publisher, tables: Iterable[str], name: str) -> ObservedTimeline:
    """``tables`` as the timeline ``name`` has them; raises :class:`InvalidRequest` if there is no such timeline."""
    found = find_place(publisher.storage, name, publisher.now())
    base = Snapshot(publisher.storage, found.base.sequence, found.base.versions)
    with gc_paused():
        observed = observe_at(base, list(tables))
    # Which version is current is of now, also on an old base: another one is asked for by its name.
    view = replace(timeline_view(observed, found), switches=read_switches(publisher.storage))
    return ObservedTimeline(found, view)
