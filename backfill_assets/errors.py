"""Exceptions; each says what to do next."""

from __future__ import annotations


class BackfillError(Exception):
    """Base of errors raised on purpose: ``message`` names thing, day, file and line, ``hint`` the next step."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\n  -> {hint}")
        self.message = message
        self.hint = hint


class InvalidRequest(BackfillError):
    """A malformed day, an unknown table or version, a wrong declaration."""


class UnknownVersion(InvalidRequest):
    """The table has no such version."""


class SourceUnreadable(BackfillError):
    """A landed file is missing, damaged, or was changed after reading."""


class SourceAway(SourceUnreadable):
    """What a source is read with does not answer; nothing is lost, and a stream waits."""


class GateFailed(BackfillError):
    """Staged days did not pass; nothing was published."""


class PublicationRefused(BackfillError):
    """A publication would break a promise: schema, overlap with an active file, rollback window."""


class LogicEdited(PublicationRefused):
    """A version computes something else than when it published."""


class CommitRefused(PublicationRefused):
    """Refused without a concurrent writer: the table cannot be written as it is."""


class LakehouseUnusable(BackfillError):
    """The lakehouse, Java, Spark or its JARs cannot be used."""


class LakehouseBusy(BackfillError):
    """Other writers won at every attempt; nothing is half done."""


class SparkLost(LakehouseUnusable):
    """The Spark server went away; staged days are kept."""


class NotDelivered(BackfillError):
    """A notice could not be sent; it stays due."""


class NoAnswer(NotDelivered):
    """No answer in time: whether the notice arrived is unknown."""


class CampaignStopped(BackfillError):
    """A limit is exceeded, or inputs are not as published."""


class StreamFailed(BackfillError):
    """What the stream published stays; a restart continues there."""


class AnotherStreamRuns(BackfillError):
    """Another stream of the table runs; this one read nothing since."""
