"""Names the days that a publication leaves stale, on the state that PREPARE compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backfill_assets.lakehouse.records import Publication
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import expand_tables
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Readers
from backfill_assets.state.observed import observe_each
from backfill_assets.state.status import left_stale


def naming_readers(
    steps: Sequence[Step],
    log: PublicationLog,
    then: Callable[[Publication], Publication] = lambda publication: publication,
) -> Readers:
    """Adds the days that a publication leaves stale; ``then`` gets it, for a notice."""
    tables = [name for step in steps for name in step.table_names]

    def completed(publication: Publication) -> Publication:
        stale = left_stale(steps, observe_each(log.storage, tables, log), publication.tables)
        return then(publication.model_copy(update={"leaves_stale": {**stale, **publication.leaves_stale}}))

    return Readers(tables_reading(steps), completed)


def tables_reading(steps: Sequence[Step]) -> Callable[[Publication], frozenset[str]]:
    return lambda publication: frozenset(expand_tables(steps, publication.writes, downstream=True)) - publication.writes
