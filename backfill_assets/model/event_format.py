"""The interface of formats of a topic's events; ``stream/avro_events.py`` and its neighbours implement it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from backfill_assets.model.landed_format import SourceOfFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_assets.model.declaration import Source


class EventFormat(Protocol):
    """How the values of a topic's events are encoded. Hashable; without secrets."""

    def in_json(self, events: DataFrame, *, with_bytes: bool) -> DataFrame:
        """``events``, each ``value`` being the text of a JSON object. Lazy.

        An event that cannot be decoded is ``{"unreadable": reason}``, ``with_bytes`` beside it; null stays. The same
        bytes give the same text. Raises :class:`SourceAway` if what decoding needs does not answer.
        """


def declared_events(source: Source) -> EventFormat | None:
    """None: they are JSON."""
    return source.events if isinstance(source, SourceOfFiles) else None
