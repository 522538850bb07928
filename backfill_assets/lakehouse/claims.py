"""A name that has one holder at a time: numbered claims, of which the newest counts.

A claim is put under the number after the newest one, if none is there. So of all who decide on the same newest claim,
one gets the name, and the others look again. Numbers only grow: a process that slept finds that others went on.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from backfill_assets.lakehouse.storage import Storage

_KEPT_BELOW = 1
"""Older claims go, except this many: a reader that lists them meanwhile finds one in any case."""


@dataclass(frozen=True)
class Claim:
    """What the holder of a name wrote when it took it."""

    number: int
    data: bytes


@dataclass(frozen=True)
class Claims:
    """The claims of one name, in a ``folder`` of their own below the root of ``storage``."""

    storage: Storage
    folder: str

    def newest(self) -> Claim | None:
        """The claim that counts; None as long as there is none."""
        while numbers := self._numbers():
            with suppress(FileNotFoundError):  # Others have claimed the name twice since it was listed.
                return Claim(max(numbers), self.storage.read_bytes(self.path(max(numbers))))
        return None

    def put(self, data: bytes, after: Claim | None) -> Claim | None:
        """Claim the name, as decided on the newest claim ``after``; None if another process was faster.

        ``data`` is of this process alone: an object store may take a claim, lose the answer, and refuse it when it is
        sent again. It is not enough that the number was free: a process that slept may find an old one so.
        """
        claim = Claim(after.number + 1 if after else 0, data)
        self.storage.put_if_absent(self.path(claim.number), data)
        if self.newest() != claim:
            return None
        for number in self._numbers():
            if number < claim.number - _KEPT_BELOW:
                self.storage.delete(self.path(number))
        return claim

    def path(self, number: int) -> str:
        return f"{self.folder}/{number:06d}.json"

    def _numbers(self) -> list[int]:
        names = (file.path.rsplit("/", 1)[-1].removesuffix(".json") for file in self.storage.files(self.folder))
        return [int(name) for name in names if name.isdigit()]
