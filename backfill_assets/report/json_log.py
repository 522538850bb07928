"""Logs as lines of JSON: ``time`` (UTC), ``level``, ``logger``, ``message``, and what the line is about: ``command``,
``run``, ``job``, ``step``, ``table``, ``day``, ``publication``.

Child processes get ``BACKFILL_LOG_FORMAT=json``; else nothing here is imported.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TextIO

FIELDS = "fields"
"""Further fields, in ``extra=``."""
COMMANDS = "backfill_assets.command"
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_about: ContextVar[Mapping[str, Any]] = ContextVar("about", default=_NOTHING)
_DAY = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:\.\.\d{4}-\d{2}-\d{2})?\b")
_PUBLICATION = re.compile(r"\b\d{8}t\d{6}-[a-z0-9-]*[a-z0-9]\b")
_TABLE = re.compile(r"\b(?:raw|bronze|quarantine|fact|report)_\w+\b")
_NAMED = {"publication": _PUBLICATION, "table": _TABLE, "day": _DAY}
_USER = re.compile(r"(?<=://)[^/\s@]+@")
_SECRET = re.compile(r"(?i)\b(token|secret|password|passwd|api_?key|signature|credential|authorization)=[^&\s\"']+")
_HIDDEN = "***"


@contextmanager
def about(**fields: str) -> Iterator[None]:
    before = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        _about.reset(before)


class JsonFormatter(logging.Formatter):
    """A line a record; secrets in addresses are hidden."""

    def format(self, record: logging.LogRecord) -> str:
        meta = getattr(record, "dagster_meta", None) or {}
        message = str(meta.get("orig_message") or record.getMessage())
        found = {
            "time": f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": message,
            **named_in(message),
            **_about.get(),
            **_of_dagster(meta),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            found["error"] = "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return json.dumps({name: _plain(value) for name, value in found.items() if value not in ("", None)})


def named_in(message: str) -> dict[str, str]:
    """What a sentence of ours names, if it names one.

    >>> named_in("fact_sales 2017-03-01: 62/90 days staged")
    {'table': 'fact_sales', 'day': '2017-03-01'}
    """
    found = {name: set(pattern.findall(message)) for name, pattern in _NAMED.items()}
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1}


def without_secrets(text: str) -> str:
    """
    >>> without_secrets("s3://ana:pw@store/x?token=abc&n=1")
    's3://***@store/x?token=***&n=1'
    """
    return _SECRET.sub(rf"\1={_HIDDEN}", _USER.sub(f"{_HIDDEN}@", text))


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return without_secrets(str(value))


def _of_dagster(meta: Mapping[str, Any]) -> dict[str, Any]:
    event = meta.get("dagster_event")
    key = getattr(event, "asset_key", None)
    named = {"run": meta.get("run_id"), "job": meta.get("job_name"), "step": meta.get("step_key")}
    if key is not None:
        named |= {"table": key.path[-1], "day": getattr(event, "partition", None)}
    return {name: value for name, value in named.items() if value}


def json_handler(stream: TextIO | None = None) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter())
    return handler


def install(stream: TextIO | None = None) -> None:
    """On standard error: warnings, and from INFO on what this package says."""
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(json_handler(stream))
    logging.getLogger("backfill_assets").setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
