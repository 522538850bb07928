"""A lakehouse takes rows in with one key, however many machines there are."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.token_key import CHECK_FILE, require_same_key, require_token_key
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "lakehouse"))


def test_a_key_is_made_once_and_for_its_owner_only(storage: Storage, tmp_path: Path) -> None:
    """A second key would cut history in two."""
    path = tmp_path / "keys" / "token.key"
    require_token_key(storage, path, [])
    first = path.read_text()
    require_token_key(storage, path, [])
    assert path.read_text() == first
    assert len(first.strip()) == 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]
    assert first.strip() not in storage.read_bytes(CHECK_FILE).decode()


def test_a_second_machine_makes_no_key_of_its_own(storage: Storage, tmp_path: Path) -> None:
    """The same household would get another token, for good."""
    require_token_key(storage, tmp_path / "one.key", [])
    with pytest.raises(LakehouseUnusable, match=r"no token key .*two\.key, and rows were taken in") as refused:
        require_token_key(storage, tmp_path / "two.key", [])
    assert "backfill docs operations" in str(refused.value)
    assert not (tmp_path / "two.key").exists()


NO_UTF_8 = b"the \xfcber-secret key of one"
"""As an editor in Latin-1 saves it, or random bytes."""


@pytest.mark.parametrize(
    "another", [b"another key that is long enough", NO_UTF_8.replace(b"\xfc", b"\xf6")], ids=["other", "other bytes"]
)
def test_another_key_is_refused_and_a_copy_is_not(storage: Storage, tmp_path: Path, another: bytes) -> None:
    """Spark makes the tokens of all bytes of a key, whether they are UTF-8 or not."""
    one, two = tmp_path / "one.key", tmp_path / "two.key"
    one.write_bytes(NO_UTF_8)
    require_token_key(storage, one, [])
    two.write_bytes(b"  " + NO_UTF_8 + b"\r\n")
    require_token_key(storage, two, [])
    two.write_bytes(another)
    with pytest.raises(LakehouseUnusable, match="another token key") as refused:
        require_token_key(storage, two, [])
    assert "long enough" not in str(refused.value)
    with pytest.raises(LakehouseUnusable, match="another token key"):
        require_same_key(storage, two)


def test_no_key_is_made_for_a_lakehouse_that_has_rows_and_no_check_value(tmp_path: Path) -> None:
    """It was filled before there were check values. The key that is brought to it is taken for the right one."""
    lake = SmallLakehouse(tmp_path)
    lake.publish("one", {"raw_sales": {date(2017, 3, 1): [1]}})
    key = tmp_path / "token.key"
    with pytest.raises(LakehouseUnusable, match="raw_sales has rows"):
        require_token_key(lake.storage, key, ["raw_other", "raw_sales"])
    assert not key.exists() and lake.storage.missing([CHECK_FILE])
    key.write_text("the key that was there before")
    require_token_key(lake.storage, key, ["raw_sales"])
    assert not lake.storage.missing([CHECK_FILE])


def test_of_machines_that_begin_at_once_one_makes_the_key(storage: Storage, tmp_path: Path) -> None:
    """The others are refused, and keep no key that would be refused again when the right one is brought."""

    def begin(number: int) -> bool:
        try:
            require_token_key(storage, tmp_path / f"{number}.key", [])
        except LakehouseUnusable:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        made = [number for number, done in enumerate(pool.map(begin, range(8))) if done]
    assert [f"{number}.key" for number in made] == [file.name for file in tmp_path.glob("*.key")] and len(made) == 1


@pytest.mark.parametrize("key", ["", "short", " " * 40])
def test_a_key_that_is_none_gives_no_check_value(storage: Storage, tmp_path: Path, key: str) -> None:
    (tmp_path / "token.key").write_text(key)
    with pytest.raises(LakehouseUnusable, match="fewer than 16 characters"):
        require_token_key(storage, tmp_path / "token.key", [])
    assert storage.missing([CHECK_FILE])
