"""The key of tokens, a file on each machine, and the check value by which a lakehouse knows it. Tokens of two keys
never join.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage

SHORTEST_KEY = 16
CHECK_FILE = "_token_key.json"
_CHECKED = b"backfill-assets: check value of the token key"
_BRING_IT = (
    "Copy the key from the machine that took the rows in to this path, or point BACKFILL_TOKEN_KEY_FILE at it "
    '(backfill docs operations "One key for all machines").'
)


def require_token_key(storage: Storage, key_file: Path, tables: Iterable[str]) -> None:
    """Make sure that ``key_file`` has the lakehouse's key, or raise :class:`LakehouseUnusable`.

    The first key becomes the lakehouse's. One is created unless a check value exists, or rows in ``tables`` with
    tokens.
    """
    made = False
    if not key_file.exists():
        require_no_tokens(storage, key_file, tables)
        made = _make(key_file)
    if not storage.put_if_absent(CHECK_FILE, _record(read_token_key(key_file))):
        try:
            require_same_key(storage, key_file)
        except LakehouseUnusable:
            if made:  # another machine was first, and no row has a token of this key
                key_file.unlink()
            raise


def require_no_tokens(storage: Storage, key_file: Path, tables: Iterable[str]) -> None:
    """Raises :class:`LakehouseUnusable` for tokens of a key that is not here."""
    with_rows = next((table for table in tables if _has_rows(storage, table)), None)
    if with_rows or recorded_check(storage):
        why = f"{with_rows} has rows" if with_rows else "rows were taken in"
        raise LakehouseUnusable(
            f"There is no token key {key_file}, and {why} with one in {storage.root}.", hint=_BRING_IT
        )


def require_same_key(storage: Storage, key_file: Path) -> None:
    """Raises :class:`LakehouseUnusable` if the lakehouse knows another key."""
    known = recorded_check(storage)
    if known and known != check_value(read_token_key(key_file)):
        raise LakehouseUnusable(
            f"{key_file} is another token key than the one that rows were taken in with in {storage.root}.",
            hint=_BRING_IT,
        )


def recorded_check(storage: Storage) -> str:
    if storage.missing([CHECK_FILE]):
        return ""
    return str(json.loads(storage.read_bytes(CHECK_FILE))["hmac_sha256"])


def check_value(key: bytes) -> str:
    return hmac.new(key, _CHECKED, hashlib.sha256).hexdigest()


def read_token_key(key_file: Path) -> bytes:
    """Any bytes. Raises :class:`LakehouseUnusable`; no message contains the key."""
    try:
        key = key_file.read_bytes().strip(b" \t\r\n")
    except OSError as error:
        raise LakehouseUnusable(
            f"The token key {key_file} cannot be read: {error.strerror}.",
            hint="Point BACKFILL_TOKEN_KEY_FILE at the key that the rows were taken in with.",
        ) from error
    if len(key.decode(errors="replace")) < SHORTEST_KEY:
        raise LakehouseUnusable(f"The token key {key_file} has fewer than {SHORTEST_KEY} characters.")
    return key


def token_of(value: str, key_file: Path) -> str:
    """Raises :class:`LakehouseUnusable`; no message contains value or key."""
    if not value:
        raise InvalidRequest("An empty personal value has no token.", hint="Give the value as it was landed.")
    key = read_token_key(key_file)
    return hmac.new(key, value.encode(), hashlib.sha256).hexdigest()


def tokens_by(key_file: Path, remembered: int = 0) -> Callable[[pa.Array], pa.Array]:
    """Null for null and empty text; distinct values are hashed once an array, ``remembered`` ones cached."""
    token: Callable[[str | None], str | None] = partial(_token, hmac.new(read_token_key(key_file), digestmod=sha256))
    known = lru_cache(remembered)(token) if remembered else token

    def tokens(values: pa.Array) -> pa.Array:
        encoded = values.dictionary_encode()
        return pa.array(map(known, encoded.dictionary.to_pylist()), pa.string()).take(encoded.indices)

    return tokens


def _token(keyed: hmac.HMAC, value: str | None) -> str | None:
    if not value:
        return None
    found = keyed.copy()
    found.update(value.encode())
    return found.hexdigest()


def _make(key_file: Path) -> bool:
    """Readable by its owner alone; False if one exists by now."""
    unfinished = key_file.with_name(f"{key_file.name}.{clock.token(4)}.tmp")
    try:
        key_file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(clock.token(32) + "\n")
        os.link(unfinished, key_file)  # atomic: another process here sees a whole key or none
    except FileExistsError:
        return False
    except OSError as error:
        raise LakehouseUnusable(
            f"The token key {key_file} cannot be written: {error.strerror}.",
            hint="Point BACKFILL_TOKEN_KEY_FILE at a file in a folder that can be written.",
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return True


def _record(key: bytes) -> bytes:
    return json.dumps({"hmac_sha256": check_value(key)}).encode()


def _has_rows(storage: Storage, table: str) -> bool:
    main = MainTable.open(storage, table)
    return main is not None and any(file.rows for file in main.state().active.values())
