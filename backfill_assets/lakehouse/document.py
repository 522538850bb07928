"""Documents: what is kept as JSON in the lakehouse, a typed value a file, whole at every moment.

Plans, notices and holds have names. What changes hands or grows has numbers: a journal, the revisions under the name of
a timeline, the claims of a stream. A number is written once, so of all who decide on the newest document one writes the
next, and the others look again. Nothing here waits or locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.storage import Storage, StoredFile

_SUFFIX = ".json"
_KEPT_BELOW = 1
"""Older claims go, except this many: a reader that lists them meanwhile finds one in any case."""
T = TypeVar("T")


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


@dataclass(frozen=True)
class Documents(Generic[T]):
    """The documents of one ``kind`` in a ``folder`` below the root of ``storage``, by name.

    ``mend`` says what a person can do about one that cannot be read.
    """

    storage: Storage
    folder: str
    kind: type[T]
    mend: str = "Use the version that wrote it, or put the file back from a backup."

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}{_SUFFIX}"

    def files(self, *, recursive: bool = False) -> dict[str, StoredFile]:
        """By name, in the order of names; without files that are being written, and those of file managers."""
        found = self.storage.files(self.folder, recursive=recursive)
        names = {file.path[len(self.folder) + 1 :]: file for file in found if file.path.endswith(_SUFFIX)}
        return {name.removesuffix(_SUFFIX): names[name] for name in sorted(names)}

    def get(self, name: str) -> T | None:
        """None if there is none; raises :class:`LakehouseUnusable` for one that cannot be read."""
        try:
            data = self.storage.read_bytes(self.path(name))
        except FileNotFoundError:
            return None
        return self.parse(name, data)

    def parse(self, name: str, data: bytes) -> T:
        """What ``data`` of that name holds; raises :class:`LakehouseUnusable`."""
        try:
            return self._json.validate_json(data)
        except ValidationError as error:
            path = self.storage.uri(self.path(name))
            raise LakehouseUnusable(f"{path} is damaged, or of a later version.", hint=self.mend) from error

    def readable(self) -> Iterator[T]:
        """All that can be read, in the order of names; one that goes meanwhile is left out."""
        for name in self.files():
            with suppress(LakehouseUnusable):
                if (value := self.get(name)) is not None:
                    yield value

    def create(self, name: str, value: T) -> bool:
        """False if there is one. Of several writers at once, exactly one gets True."""
        return self.storage.put_if_absent(self.path(name), self.encode(value))

    def replace(self, name: str, value: T) -> None:
        """Others that read it meanwhile find the old one or the new one."""
        self.storage.replace_bytes(self.path(name), self.encode(value))

    def delete(self, name: str) -> None:
        self.storage.delete(self.path(name))

    def encode(self, value: T) -> bytes:
        return self._json.dump_json(value)

    @property
    def _json(self) -> TypeAdapter[T]:
        adapter: TypeAdapter[T] = _adapter(self.kind)
        return adapter


@dataclass(frozen=True)
class Numbered:
    """A document as it is stored under its number."""

    number: int
    data: bytes


@dataclass(frozen=True)
class Series(Documents[T]):
    """Documents that follow each other in a ``folder`` of their own, under growing numbers."""

    def numbers(self) -> list[int]:
        return sorted(int(name) for name in self.files() if name.isdigit())

    def newest(self) -> Numbered | None:
        """None as long as there is none. It may be damaged: :meth:`value` reads it."""
        while numbers := self.numbers():
            with suppress(FileNotFoundError):  # Others have claimed twice since it was listed.
                return Numbered(numbers[-1], self.storage.read_bytes(self.path_of(numbers[-1])))
        return None

    def value(self, stored: Numbered) -> T:
        return self.parse(_name(stored.number), stored.data)

    def at(self, number: int) -> T:
        return self.value(Numbered(number, self.storage.read_bytes(self.path_of(number))))

    def path_of(self, number: int) -> str:
        return self.path(_name(number))

    def put(self, number: int, value: T) -> bool:
        """False if another one has the number.

        An object store may take a document, lose the answer, and refuse it when it is sent again: then it is there.
        """
        return self.create(_name(number), value) or self.storage.read_bytes(self.path_of(number)) == self.encode(value)

    def append(self, value: T) -> int:
        """Write it under the next free number, and return that."""
        number = len(self.numbers())
        while not self.put(number, value):
            number += 1
        return number

    def rewrite(self, number: int, value: T) -> None:
        """Replace the document of that number, or put it back where it is gone."""
        self.replace(_name(number), value)

    def claim(self, value: T, after: Numbered | None) -> Numbered | None:
        """Put ``value`` after the newest document, as decided on ``after``; None if another process was faster.

        ``value`` is of this process alone, for the store may lose the answer. It is not enough that the number was
        free: older claims are deleted, and a process that slept may find an old number so.
        """
        claim = Numbered(after.number + 1 if after else 0, self.encode(value))
        self.create(_name(claim.number), value)
        if self.newest() != claim:
            return None
        for number in self.numbers():
            if number < claim.number - _KEPT_BELOW:
                self.delete(_name(number))
        return claim


def _name(number: int) -> str:
    return f"{number:06d}"
