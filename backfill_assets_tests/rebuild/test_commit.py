"""Which commit a publication names, and when a changed working tree is refused: git alone, no JVM."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from backfill_assets.errors import PublicationRefused
from backfill_assets.rebuild import environment as commit
from backfill_assets.rebuild.environment import UNKNOWN_COMMIT, commit_of, require_clean_tree

GIT = shutil.which("git") or "git"


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    command = (GIT, *identity, *words)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A repository with a package that is committed, and a page beside it."""
    folder = tmp_path / "repository" / "package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text('"""Code."""\n')
    (folder.parent / "page.md").write_text("Words.\n")
    git(folder.parent, "init", "--quiet")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "--quiet", "--message", "first")
    return folder


def test_a_clean_tree_is_its_commit(package: Path) -> None:
    """A page that changed makes no row: only the package's own files count."""
    (package.parent / "page.md").write_text("Other words.\n")
    assert commit_of(package) == git(package, "rev-parse", "HEAD")


def test_changed_and_new_files_of_the_package_are_dirty(package: Path) -> None:
    """A dataset that was declared in a new file is in no commit either."""
    head = git(package, "rev-parse", "HEAD")
    (package / "__init__.py").write_text('"""Other code."""\n')
    assert commit_of(package) == f"{head}+dirty"
    git(package, "checkout", "--quiet", "--", ".")
    assert commit_of(package) == head
    (package / "new.py").write_text("")
    assert commit_of(package) == f"{head}+dirty"


def test_without_a_repository_it_is_unknown(package: Path, tmp_path: Path) -> None:
    """A package that another repository does not track is not of its commit."""
    assert commit_of(tmp_path) == UNKNOWN_COMMIT
    installed = package.parent / "site-packages"
    installed.mkdir()
    (installed / "__init__.py").write_text("")
    assert commit_of(installed) == UNKNOWN_COMMIT


def test_datasets_in_a_package_of_their_own_name_its_commit(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are made by both: that the package is installed, and not of a repository, hides no change."""
    head, ours = git(package, "rev-parse", "HEAD"), package.parent / "site-packages"
    monkeypatch.setattr(commit, "_PACKAGE", ours)
    monkeypatch.delenv("BACKFILL_GIT_COMMIT", raising=False)
    assert commit.git_commit.__wrapped__(package) == head
    (package / "datasets.py").write_text("")
    assert commit.git_commit.__wrapped__(package) == f"{head}+dirty"
    git(package, "add", ".")
    git(package, "commit", "--quiet", "--message", "second")
    monkeypatch.setattr(commit, "commit_of", lambda folder: "c0ffee+dirty" if folder == ours else "beef")
    assert commit.git_commit.__wrapped__(package) == "beef+dirty"
    assert commit.git_commit.__wrapped__(ours / "examples") == "c0ffee+dirty"


def test_without_git_it_is_unknown(package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An image has no git; BACKFILL_GIT_COMMIT says it there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(package) == UNKNOWN_COMMIT
    monkeypatch.setenv("BACKFILL_GIT_COMMIT", "c0ffee")
    assert commit.git_commit.__wrapped__() == "c0ffee"


def test_a_dirty_tree_is_refused_only_if_asked_for() -> None:
    """Unknown is not dirty: where there is no git, the setting says nothing."""
    require_clean_tree("c0ffee0123456789+dirty", refuse=False)
    require_clean_tree("c0ffee0123456789", refuse=True)
    require_clean_tree(UNKNOWN_COMMIT, refuse=True)
    with pytest.raises(PublicationRefused, match="not in the commit c0ffee0123") as refused:
        require_clean_tree("c0ffee0123456789+dirty", refuse=True)
    assert "Commit" in str(refused.value) and "BACKFILL_DIRTY_TREE" in str(refused.value)
