"""JSON documents in the lakehouse, one typed value a file, whole at every moment.

Plans, notices and holds have names. Journals, revisions and claims have numbers, each written once: of all who decide
on the newest, one writes the next.
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
"""Older claims kept for concurrent readers."""
T = TypeVar("T")


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


@dataclass(frozen=True)
class Documents(Generic[T]):
    """``mend`` is the hint for an unreadable one."""

    storage: Storage
    folder: str
    kind: type[T]
    mend: str = "Use the version that wrote it, or put the file back from a backup."

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}{_SUFFIX}"

    def files(self, *, recursive: bool = False) -> dict[str, StoredFile]:
        """Without unfinished files and those of file managers."""
        found = self.storage.files(self.folder, recursive=recursive)
        names = {file.path[len(self.folder) + 1 :]: file for file in found if file.path.endswith(_SUFFIX)}
        return {name.removesuffix(_SUFFIX): names[name] for name in sorted(names)}

    def get(self, name: str) -> T | None:
        """Raises :class:`LakehouseUnusable` if it cannot be read."""
        try:
            data = self.storage.read_bytes(self.path(name))
        except FileNotFoundError:
            return None
        return self.parse(name, data)

    def parse(self, name: str, data: bytes) -> T:
        try:
            return self._json.validate_json(data)
        except ValidationError as error:
            path = self.storage.uri(self.path(name))
            raise LakehouseUnusable(f"{path} is damaged, or of a later version.", hint=self.mend) from error

    def readable(self) -> Iterator[T]:
        for name in self.files():
            with suppress(LakehouseUnusable):
                if (value := self.get(name)) is not None:
                    yield value

    def create(self, name: str, value: T) -> bool:
        """False if it exists; one of several writers gets True."""
        return self.storage.put_if_absent(self.path(name), self.encode(value))

    def replace(self, name: str, value: T) -> None:
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
    number: int
    data: bytes


@dataclass(frozen=True)
class Series(Documents[T]):
    def numbers(self) -> list[int]:
        return sorted(int(name) for name in self.files() if name.isdigit())

    def newest(self) -> Numbered | None:
        """Possibly damaged: :meth:`value` reads it."""
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
        """A store may lose the answer and refuse the client's retry: the stored bytes are ours."""
        return self.create(_name(number), value) or self.storage.read_bytes(self.path_of(number)) == self.encode(value)

    def append(self, value: T) -> int:
        number = max(self.numbers(), default=-1) + 1
        while not self.put(number, value):
            number += 1
        return number

    def rewrite(self, number: int, value: T) -> None:
        self.replace(_name(number), value)

    def claim(self, value: T, after: Numbered | None) -> Numbered | None:
        """Put ``value`` after the newest document, as decided on ``after``; None if another was faster.

        ``value`` is unique, since a store may lose the answer. A free number proves nothing: older claims get deleted.
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
