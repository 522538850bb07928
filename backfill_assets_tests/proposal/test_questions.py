"""Questions are comments, and found by the dataset whose module asks them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from backfill_assets.proposal.questions import open_questions, questions_in

TEXT = '''"""# QUESTION: no."""
A = LandedDataset(name="orders")
text = "# QUESTION: no"  # QUESTION: beside?
    # QUESTION: what is it?
# question: no
'''


def test_a_question_is_a_comment() -> None:
    assert list(questions_in(TEXT.replace("    #", "#"))) == [(3, "beside?"), (4, "what is it?")]
    assert list(questions_in("# QUESTION: first?\nclass (")) == [(1, "first?")]


def test_they_are_found_in_the_module_of_their_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in one that cannot be imported, or is in the current folder alone, as a command is started there."""
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each and each != str(Path.cwd())])
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "asking_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text('raise ValueError\nX = LandedDataset(name="orders")\n# QUESTION: what is it?\n')
    (package / "b.py").write_text('X = LandedDataset(name="other")\n# QUESTION: and that?\n')
    (found,) = open_questions("orders", "asking_package")
    assert (found.place, found.question) == ("asking_package/a.py, line 3", "what is it?")
    assert open_questions("orders", "no_such_package") == []
