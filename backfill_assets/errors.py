"""The project's exceptions: few, with a common base, and each says what to do next."""

from __future__ import annotations


class BackfillError(Exception):
    """Base of every error this project raises on purpose.

    ``message`` names the thing, the day, the file and line; ``hint`` says what a person can do next.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\n  -> {hint}")
        self.message = message
        self.hint = hint


class InvalidRequest(BackfillError):
    """The request is invalid: a malformed day, a reversed range, an unknown table or version."""


class UnknownVersion(InvalidRequest):
    """A version was named that the table does not have; the hint lists those that it has."""


class SourceUnreadable(BackfillError):
    """A landed file is missing, damaged, or changed after it was read."""


class GateFailed(BackfillError):
    """Staged days did not pass their gates; nothing was published."""


class PublicationRefused(BackfillError):
    """A publication would break a promise (schema, overlap with an active file, an expired rollback window)."""


class LogicEdited(PublicationRefused):
    """A version computes something else than it did when it published days: both would have one name."""


class CommitRefused(PublicationRefused):
    """A commit was refused though no other writer was faster: the table cannot be written as it is."""


class LakehouseUnusable(BackfillError):
    """The lakehouse folder, Java, Spark or its JARs are not in a state to work with."""


class LakehouseBusy(BackfillError):
    """Other writers were faster at every attempt; nothing is half done."""


class SparkLost(LakehouseUnusable):
    """The Spark server went away while days were built: nothing was published, and what was staged is kept."""


class NotDelivered(BackfillError):
    """A notice could not be handed over; it stays due and is tried again."""


class NoAnswer(NotDelivered):
    """Nothing was heard of a place in time: whether the notice arrived is not known."""


class CampaignStopped(BackfillError):
    """A campaign must not go on: a limit is exceeded, or what was read is not as it was published."""


class StreamFailed(BackfillError):
    """The process of a stream has ended with an error. What it published stays, and a restart goes on from there."""


class AnotherStreamRuns(BackfillError):
    """A stream of the table runs already, or has taken over; this one has read nothing since."""
