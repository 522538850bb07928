"""What a stream reads from: a Kafka topic, or the landing folder."""

from __future__ import annotations

import re
from dataclasses import dataclass

from backfill_assets.errors import InvalidRequest

_ADDRESS = re.compile(r"(?i:kafka)://(?P<servers>[^/]*)(?:/(?P<topic>.*))?", re.DOTALL)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):\d{1,5}")
LANDING = "landing"
"""How a command and the status of a stream name the landing folder."""
_EXAMPLE = "Write --from landing, or --from kafka://HOST:PORT/TOPIC."


@dataclass(frozen=True)
class KafkaTopic:
    """A topic and the brokers to ask first. ``servers`` is ``host:port``, several with commas between."""

    servers: str
    topic: str

    def __str__(self) -> str:
        return f"kafka://{self.servers}/{self.topic}"


@dataclass(frozen=True)
class LandingFolder:
    """The landing folder of the source, whose files land all day."""

    def __str__(self) -> str:
        return LANDING


StreamSource = KafkaTopic | LandingFolder


def parse_source(text: str) -> StreamSource:
    """``landing`` or ``kafka://host:port[,host:port]/topic``; anything else raises :class:`InvalidRequest`.

    A user, a password or options are refused: they belong into the file that ``BACKFILL_KAFKA_PROPERTIES`` names.
    """
    if text == LANDING:
        return LandingFolder()
    if "@" in text or "?" in text:
        raise InvalidRequest(
            "The address of a broker holds no user, no password and no options.",
            hint="Put them into a file of Kafka client properties, and name it in BACKFILL_KAFKA_PROPERTIES.",
        )
    address = _ADDRESS.fullmatch(text)
    if address is None:
        raise InvalidRequest(f"{text!r} is no source of a stream.", hint=_EXAMPLE)
    servers, topic = address["servers"], address["topic"] or ""
    if not all(map(_SERVER.fullmatch, servers.split(","))) or not _TOPIC.fullmatch(topic):
        raise InvalidRequest(f"{text!r} names no brokers with their ports and one topic.", hint=_EXAMPLE)
    return KafkaTopic(servers, topic)
