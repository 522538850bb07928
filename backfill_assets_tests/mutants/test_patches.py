"""A mutant whose patch no longer applies proves nothing: it is noticed here, and not only when all of them run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("patch", sorted(HERE.glob("*.patch")), ids=lambda patch: patch.stem)
def test_the_patch_applies(patch: Path) -> None:
    """Code that moved takes its mutants with it."""
    command = [shutil.which("git") or "git", "apply", "--check", str(patch)]
    checked = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
