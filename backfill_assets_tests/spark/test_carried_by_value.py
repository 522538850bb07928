"""What a project declares for Spark's workers goes to them with its code: a cluster does not have that project."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.spark.workers import carried_by_value

pytestmark = pytest.mark.data
FORMATS = """from a_strangers_project.signs import SIGN

class Signed:
    def text(self):
        return f"signed {SIGN}"
"""
READ = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()).text())"


def test_a_class_of_another_project_needs_no_project_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what it imports from its project. What is of this package is there anyway."""
    project = tmp_path / "a_strangers_project"
    project.mkdir()
    for name, text in (("__init__", ""), ("formats", FORMATS), ("signs", "SIGN = 'x'\n")):
        (project / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    declared = importlib.import_module("a_strangers_project.formats").Signed()
    carried_by_value(declared)
    carried_by_value(Storage("of this package"))
    pickled = cloudpickle.dumps(declared)  # type: ignore[no-untyped-call]
    found = subprocess.run([sys.executable, "-c", READ], input=pickled, capture_output=True, check=False)
    assert found.stdout.decode().strip() == "signed x", found.stderr.decode()
