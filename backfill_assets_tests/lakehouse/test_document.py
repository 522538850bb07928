"""A document is whole at every moment; of all who decide on one claim, one has the name."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.document import Documents, Numbered, Series
from backfill_assets.lakehouse.plans import keep_page, kept_page
from backfill_assets.lakehouse.storage import Storage

PLAN = "plan-0123456789abcdef"


@pytest.fixture
def documents(tmp_path: Path) -> Documents[dict[str, int]]:
    return Documents(Storage(str(tmp_path)), "kept", dict[str, int], "Remove it.")


@pytest.fixture
def claims(tmp_path: Path) -> Series[str]:
    return Series(Storage(str(tmp_path)), "names/n", str)


def claimed(number: int, text: str) -> Numbered:
    return Numbered(number, f'"{text}"'.encode())


def took(claims: Series[str], text: str) -> Numbered:
    claim = claims.claim(text, claims.newest())
    assert claim is not None
    return claim


def test_the_first_stays_until_it_is_replaced(documents: Documents[dict[str, int]]) -> None:
    assert documents.get("a") is None and documents.create("a", {"n": 1})
    assert not documents.create("a", {"n": 2}) and documents.get("a") == {"n": 1}
    documents.replace("a", {"n": 3})
    assert documents.get("a") == {"n": 3}
    documents.delete("a")
    assert list(documents.files()) == []


def test_a_damaged_one_is_named_with_what_to_do_and_hides_no_other(documents: Documents[dict[str, int]]) -> None:
    """Files of file managers, and those that are being written, are no documents."""
    documents.create("b", {"n": 1})
    for name in ("a.json", ".DS_Store", "c.json.12ab.tmp"):
        documents.storage.write_bytes(f"kept/{name}", b'{"n": "x')
    with pytest.raises(LakehouseUnusable, match=r"kept/a\.json is damaged") as named:
        documents.get("a")
    assert named.value.hint == "Remove it." and list(documents.files()) == ["a", "b"]
    assert list(documents.readable()) == [{"n": 1}]


def test_a_disk_that_is_full_leaves_the_document_and_the_page_before(
    documents: Documents[dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written in place, half of it would be left: each reader would get a traceback, or approve half a difference."""
    documents.create("a", {"n": 1})
    keep_page(documents.storage, PLAN, "the first")
    write = Storage.write_bytes

    def full(self: Storage, path: str, data: bytes) -> None:
        write(self, path, data[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Storage, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        documents.replace("a", {"n": 2})
    with pytest.raises(OSError, match="No space"):
        keep_page(documents.storage, PLAN, "the second")
    assert documents.get("a") == {"n": 1} and kept_page(documents.storage, PLAN) == b"the first"
    assert [len(documents.storage.files(folder)) for folder in ("kept", "_plans")] == [1, 1]


def test_of_two_that_decide_on_one_claim_one_has_the_name(claims: Series[str]) -> None:
    assert claims.newest() is None
    first = claims.claim("first", None)
    assert first == claimed(0, "first") and claims.claim("second", None) is None
    assert claims.claim("third", first) == claims.newest() and claims.claim("fourth", first) is None


def test_a_number_that_is_free_again_is_no_claim(claims: Series[str]) -> None:
    """A process that slept finds its number free: older claims are deleted."""
    first = took(claims, "first")
    for text in ("second", "third", "fourth"):
        newest = took(claims, text)
    assert len(claims.storage.files(claims.folder)) == 2
    assert claims.claim("of one that slept", first) is None and claims.newest() == newest


def test_a_claim_that_vanishes_while_it_is_read_is_looked_for_again(
    claims: Series[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    took(claims, "first")
    read = Storage.read_bytes

    def read_late(storage: Storage, path: str) -> bytes:
        monkeypatch.setattr(Storage, "read_bytes", read)
        for text in ("second", "third", "fourth"):
            took(claims, text)
        return read(storage, path)

    monkeypatch.setattr(Storage, "read_bytes", read_late)
    assert claims.newest() == claimed(3, "fourth")


def test_an_answer_that_was_lost_is_found_out(claims: Series[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An object store took the claim, and refuses it when the client sends it again."""
    put = Storage.put_if_absent

    def put_twice(storage: Storage, path: str, data: bytes) -> bool:
        put(storage, path, data)
        return put(storage, path, data)

    monkeypatch.setattr(Storage, "put_if_absent", put_twice)
    assert claims.claim("first", None) == claimed(0, "first")
