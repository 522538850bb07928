"""A mutant whose patch no longer applies proves nothing: it is noticed here, and not only when all of them run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE, MUST_FAIL = Path(__file__).parent, "# must fail: "


@pytest.mark.parametrize("patch", sorted(HERE.glob("*.patch")), ids=lambda patch: patch.stem)
def test_the_patch_applies(patch: Path) -> None:
    """Code that moved takes its mutants with it."""
    command = [shutil.which("git") or "git", "apply", "--check", str(patch)]
    checked = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("patch", sorted(HERE.glob("*.patch")), ids=lambda patch: patch.stem)
def test_the_tests_that_must_fail_are_there(patch: Path) -> None:
    """A test that was moved or renamed takes its mutants with it."""
    named = [line.removeprefix(MUST_FAIL).strip() for line in patch.read_text().splitlines() if MUST_FAIL in line]
    assert named
    for path, name in (each.split("::", 1) for each in named):
        test = name.partition("[")[0].rpartition("::")[2]
        assert f"def {test}(" in (HERE.parents[1] / path).read_text(), f"{path} has no {test}"
