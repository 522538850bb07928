"""A campaign's journal: each entry once, for any answer of an object store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.campaign_journal import JournalEntry, entries, newest, set_damaged_aside, write
from backfill_assets.lakehouse.storage import Storage

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CAMPAIGN = "campaign-0123456789abcdef"
KINDS: tuple[Literal["approved", "stopped", "resumed"], ...] = ("approved", "stopped", "resumed")


@dataclass(frozen=True)
class ForgetfulStore(Storage):
    """Takes a file, loses the answer, and refuses it when the client sends it again."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        super().put_if_absent(path, data)
        return super().put_if_absent(path, data)


def test_an_entry_whose_answer_was_lost_is_written_once(tmp_path: Path) -> None:
    """Twice approved would be two approvals."""
    store = ForgetfulStore(str(tmp_path))
    assert write(store, CAMPAIGN, JournalEntry(kind="started", at=NOW)) == 0
    assert write(store, CAMPAIGN, JournalEntry(kind="approved", at=NOW, by="ana")) == 1
    assert [entry.kind for entry in entries(store, CAMPAIGN)] == ["started", "approved"]


def test_two_writers_get_two_numbers(tmp_path: Path) -> None:
    """Another one's entry under the number is not ours."""
    storage = Storage(str(tmp_path))
    write(storage, CAMPAIGN, JournalEntry(kind="started", at=NOW))
    storage.write_bytes(
        f"_campaigns/{CAMPAIGN}/000002.json", JournalEntry(kind="resumed", at=NOW).model_dump_json().encode()
    )
    assert write(storage, CAMPAIGN, JournalEntry(kind="approved", at=NOW)) == 3


def test_what_is_written_after_damaged_entries_were_set_aside_comes_last(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    begun = JournalEntry(kind="started", at=NOW)
    for each in (begun, *(JournalEntry(kind=kind, at=NOW) for kind in KINDS)):
        write(storage, CAMPAIGN, each)
    for number in (1, 2):
        storage.replace_bytes(f"_campaigns/{CAMPAIGN}/{number:06d}.json", b"{")
    set_damaged_aside(storage, CAMPAIGN, begun)
    assert write(storage, CAMPAIGN, JournalEntry(kind="withdrawn", at=NOW)) == 4
    assert [entry.kind for entry in entries(storage, CAMPAIGN)] == ["started", "resumed", "withdrawn"]


def test_a_damaged_entry_is_named_and_hides_no_other_campaign(tmp_path: Path) -> None:
    """Plans are timed by the newest campaigns, and a rewind lists what they held back: one is passed over."""
    storage, other = Storage(str(tmp_path)), "campaign-fedcba9876543210"
    for name in (CAMPAIGN, other):
        write(storage, name, JournalEntry(kind="started", at=NOW))
    path = f"_campaigns/{CAMPAIGN}/000000.json"
    storage.replace_bytes(path, b'{"kind": "star')
    assert [[entry.kind for entry in found] for found in newest(storage, 2)] == [["started"]]
    with pytest.raises(LakehouseUnusable, match="is damaged") as named:
        entries(storage, CAMPAIGN)
    assert storage.uri(path) in named.value.message
