"""Of all who decide on one claim, one has the name; a claim that is listed and gone is no error."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets.lakehouse.claims import Claim, Claims
from backfill_assets.lakehouse.storage import Storage


@pytest.fixture
def claims(tmp_path: Path) -> Claims:
    return Claims(Storage(str(tmp_path)), "names/n")


def took(claims: Claims, data: bytes) -> Claim:
    claim = claims.put(data, claims.newest())
    assert claim is not None
    return claim


def test_of_two_that_decide_on_one_claim_one_has_the_name(claims: Claims) -> None:
    assert claims.newest() is None
    first = claims.put(b"first", None)
    assert first == Claim(0, b"first") and claims.put(b"second", None) is None
    assert claims.put(b"third", first) == claims.newest() and claims.put(b"fourth", first) is None


def test_a_number_that_is_free_again_is_no_claim(claims: Claims) -> None:
    """A process that slept finds its number free: older claims are deleted."""
    first = took(claims, b"first")
    for data in (b"second", b"third", b"fourth"):
        newest = took(claims, data)
    assert len(claims.storage.files(claims.folder)) == 2
    assert claims.put(b"of one that slept", first) is None and claims.newest() == newest


def test_a_claim_that_vanishes_while_it_is_read_is_looked_for_again(
    claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    took(claims, b"first")
    read = Storage.read_bytes

    def read_late(storage: Storage, path: str) -> bytes:
        monkeypatch.setattr(Storage, "read_bytes", read)
        for data in (b"second", b"third", b"fourth"):
            took(claims, data)
        return read(storage, path)

    monkeypatch.setattr(Storage, "read_bytes", read_late)
    assert claims.newest() == Claim(3, b"fourth")


def test_an_answer_that_was_lost_is_found_out(claims: Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object store took the claim, and refuses it when the client sends it again."""
    put = Storage.put_if_absent

    def put_twice(storage: Storage, path: str, data: bytes) -> bool:
        put(storage, path, data)
        return put(storage, path, data)

    monkeypatch.setattr(Storage, "put_if_absent", put_twice)
    assert claims.put(b"first", None) == Claim(0, b"first")
