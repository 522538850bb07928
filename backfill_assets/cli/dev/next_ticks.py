"""What Dagster will do by itself next, as its UI answers: schedules that are on, and when each of them is due."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.request import Request, urlopen

_QUERY = """{ repositoriesOrError { ... on RepositoryConnection { nodes {
  schedules { name description scheduleState { status } futureTicks(limit: 1) { results { timestamp } } }
  sensors { name sensorState { status } }
} } } }"""
_TIMEOUT_SECONDS = 60


def ask_next_ticks(ui: str) -> list[str]:
    """A line for each schedule that is on at the UI ``ui``, and one for the sensors.

    Raises ``OSError`` if it cannot be reached, and ``LookupError`` or ``ValueError`` if it answers something else.
    """
    asked = json.dumps({"query": _QUERY}).encode()
    request = Request(f"{ui}/graphql", asked, {"Content-Type": "application/json"})  # noqa: S310 - our own UI
    with urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
        return list(next_ticks(json.load(answer)))


def next_ticks(answer: Mapping[str, Any]) -> Iterator[str]:
    """The lines for what the UI answers, the next tick first. Pure."""
    nodes = answer["data"]["repositoriesOrError"]["nodes"]
    found = [
        (tick["timestamp"], schedule["name"], (schedule["description"] or "").partition(". ")[0].rstrip("."))
        for node in nodes
        for schedule in node["schedules"]
        if schedule["scheduleState"]["status"] == "RUNNING"
        for tick in schedule["futureTicks"]["results"]
    ]
    for at, name, what in sorted(found):
        yield f"  {datetime.fromtimestamp(at, UTC):%a %Y-%m-%d %H:%M} UTC  {name}: {what}"
    sensors = [each["name"] for node in nodes for each in node["sensors"] if each["sensorState"]["status"] == "RUNNING"]
    yield f"  all the time: {', '.join(sorted(sensors))}"
