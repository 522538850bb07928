"""What Dagster shows of a stream: its delay, rate and positions as metadata, and one line for the log. Pure."""

from __future__ import annotations

import dagster as dg

from backfill_assets.defs.metadata import metadata_table
from backfill_assets.stream.lease import StreamPosition, StreamStatus

_POSITION_COLUMNS = dict.fromkeys(("partition", "position", "end", "lag"), "string")


def stream_line(status: StreamStatus) -> str:
    """``live: 412 events/s, in raw_sales after p50 1.9 s, p99 4.2 s, 0 behind, batch 118 in 2.0 s; at sales/0 47``."""
    at = ", ".join(f"{each.partition} {each.position:,}" for each in status.positions) or "the beginning"
    parts = [
        f"{status.events_per_second:,.0f} events/s",
        _late(status.table, status.delay_p50_ms, status.delay_p99_ms),
        *([_late(status.followed, status.followed_p50_ms, status.followed_p99_ms)] if status.followed else []),
        "how far behind is unknown" if status.lag is None else f"{status.lag:,} behind",
        f"batch {status.batch:,} in {status.batch_seconds:.1f} s",
        *([f"source answered in {_seconds(status.answer_ms)}"] if status.answer_ms is not None else []),
    ]
    extra = [text for text in (status.note, status.error and f"last error: {status.error}") if text]
    return "; ".join([f"{status.state}: {', '.join(parts)}", f"at {at}", *extra])


def _late(table: str, p50: int | None, p99: int | None) -> str:
    return f"in {table} after p50 {_seconds(p50)}, p99 {_seconds(p99)}"


def _seconds(milliseconds: int | None) -> str:
    return "unknown" if milliseconds is None else f"{milliseconds / 1000:.1f} s"


def stream_metadata(status: StreamStatus) -> dict[str, dg.MetadataValue]:
    """Numbers are plotted by the UI, from one materialization to the next."""
    return {
        "state": dg.MetadataValue.text(status.state),
        "source": dg.MetadataValue.text(status.source),
        **_figures(status),
        "positions": _positions(status),
        **_words(status),
    }


def _positions(status: StreamStatus) -> dg.MetadataValue:
    return metadata_table(_POSITION_COLUMNS, map(_position_record, status.positions))


def _position_record(position: StreamPosition) -> dict[str, str]:
    """As text: all rows of a table in the UI have all columns, and the end may be unknown."""
    numbers = {"position": position.position, "end": position.end, "lag": position.lag}
    texts = {name: "" if number is None else f"{number:,}" for name, number in numbers.items()}
    return {"partition": position.partition, **texts}


def _figures(status: StreamStatus) -> dict[str, dg.MetadataValue]:
    """A delay that is not known yet has no point in the plot."""
    delays = {
        f"{status.table}_p50_seconds": status.delay_p50_ms,
        f"{status.table}_p99_seconds": status.delay_p99_ms,
        f"{status.followed}_p50_seconds": status.followed_p50_ms,
        f"{status.followed}_p99_seconds": status.followed_p99_ms,
    }
    known = {name: dg.MetadataValue.float(ms / 1000) for name, ms in delays.items() if ms is not None}
    answered = {} if status.answer_ms is None else {"source_answer_seconds": status.answer_ms / 1000}
    behind = {} if status.lag is None else {"behind": dg.MetadataValue.int(status.lag)}
    return {
        **known,
        **behind,
        **{name: dg.MetadataValue.float(seconds) for name, seconds in answered.items()},
        "pace": dg.MetadataValue.float(round(status.pace, 3)),
        "events_per_second": dg.MetadataValue.float(round(status.events_per_second, 1)),
        "events": dg.MetadataValue.int(status.events),
        "batches": dg.MetadataValue.int(status.batch),
        "batch_seconds": dg.MetadataValue.float(round(status.batch_seconds, 3)),
    }


def _words(status: StreamStatus) -> dict[str, dg.MetadataValue]:
    boundary = status.boundary or "not reached: everything so far is history, or the stream began live"
    words = {"boundary": boundary, "slowed down": status.note, "last error": status.error}
    return {name: dg.MetadataValue.text(text) for name, text in words.items() if text}
