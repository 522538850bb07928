"""A storage that goes wrong at one call: it fails, loses its answer, answers late, or keeps a part of what it got.

Every call counts, of :class:`Storage` and of delta-rs: it is what a disk, a network or an object store does to both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal

import pytest
from deltalake import DeltaTable
from deltalake.transaction import create_table_with_add_actions

from backfill_assets.lakehouse import timelines
from backfill_assets.lakehouse.storage import Storage

Fault = Literal["fails", "loses the answer", "answers late", "keeps a part"]
_READS = ("read_bytes", "read_parquet", "parquet_footer", "files", "folders", "exists")
_WRITES = ("write_bytes", "put_if_absent", "write_parquet", "delete")
_COMMITS = ("create_write_transaction",)
_TORN = "storage.write_bytes"
"""All that is written outside of Delta is written by it; delta-rs gives a file its name when it is whole."""


class StorageFailed(OSError):
    """What a storage says when a call went wrong."""


@dataclass
class FailingStorage:
    """Goes wrong at call number ``at``, and at no other; ``late`` is what happens while an answer is waited for."""

    fault: Fault
    at: int | None = None
    late: Callable[[], object] = lambda: None
    calls: list[str] = field(default_factory=list)
    """Those that were made, by name."""
    struck: str = ""
    """The call that went wrong; empty if none was a kind of call that can go wrong so."""
    _inside: bool = False
    _tears: bool = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Every storage of this process is such a one."""
        with pytest.MonkeyPatch.context() as patch:
            for name in (*_READS, *_WRITES):
                patch.setattr(Storage, name, self._counted(f"storage.{name}", getattr(Storage, name)))
            patch.setattr(DeltaTable, "__init__", self._counted("delta.open", DeltaTable.__init__))
            for name in _COMMITS:
                patch.setattr(DeltaTable, name, self._counted(f"delta.{name}", getattr(DeltaTable, name)))
            created = self._counted("delta.create", create_table_with_add_actions)
            patch.setattr(timelines, create_table_with_add_actions.__name__, created)
            yield

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def counted(*given: Any, **named: Any) -> Any:
            if self._inside:  # A call that is made of other calls counts once.
                return self._kept(call, given) if self._tears and name == _TORN else call(*given, **named)
            self.calls.append(name)
            self._inside = True
            try:
                return self._struck(name, call, given, named) if len(self.calls) == self.at else call(*given, **named)
            finally:
                self._inside = False

        return counted

    def _struck(self, name: str, call: Callable[..., Any], given: Any, named: Any) -> Any:
        if not goes_wrong(name, self.fault):
            return call(*given, **named)
        self.struck = name
        if self.fault == "fails":
            raise StorageFailed(f"{name} failed")
        if self.fault == "keeps a part":
            self._tears = True
            return self._kept(call, given) if name == _TORN else call(*given, **named)
        answer = call(*given, **named)
        if self.fault == "loses the answer":
            raise StorageFailed(f"the answer of {name} was lost")
        self._inside, self.at = False, None
        self.late()
        return answer

    def _kept(self, write: Callable[..., Any], given: Any) -> Any:
        storage, path, data = given
        self._tears = False
        write(storage, path, data[: len(data) // 2])
        raise StorageFailed(f"a part of {path} is written")


def goes_wrong(call: str, fault: Fault) -> bool:
    """Whether a call of that name can go wrong in that way."""
    kind = call.partition(".")[2]
    if fault == "keeps a part":
        return kind in ("write_bytes", "write_parquet", "put_if_absent")
    return fault != "loses the answer" or kind in (*_WRITES, *_COMMITS, "create")
