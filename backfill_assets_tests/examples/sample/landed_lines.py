"""Reads a landing zone back in plain Python, for tests."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any


def landed_lines(root: Path, source: str) -> dict[str, list[str]]:
    """Every line by path relative to the landing zone, in order."""
    paths = sorted((root / source).glob("*/*.jsonl.gz"))
    return {
        path.relative_to(root).as_posix(): gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]
        for path in paths
    }


def landed_rows(root: Path, source: str) -> list[dict[str, Any]]:
    """Every line that is a JSON object."""
    return [json.loads(line) for lines in landed_lines(root, source).values() for line in lines]


def fingerprint(root: Path) -> dict[str, str]:
    """SHA-256 of every file below ``root``, hidden ones too."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def hundredths(amount: str) -> int:
    """``12.34`` is 1,234; of yen, which have no decimals, ``12`` is 1,200."""
    whole, _, decimals = amount.partition(".")
    return int(whole) * 100 + int(decimals or 0)
