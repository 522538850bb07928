"""Who runs a process is what the operating system says."""

from __future__ import annotations

import os
import pwd
import sys
from types import SimpleNamespace

import pytest

from backfill_assets.lakehouse.campaign_reports import ApprovalReport, BegunReport
from backfill_assets.rebuild.outcome import UNKNOWN, Person, os_person


def test_the_environment_cannot_claim_to_be_another_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """``getpass.getuser()`` would believe it."""
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME", "SUDO_USER"):
        monkeypatch.setenv(variable, "mallory")
    uid = os.getuid()
    assert os_person() == Person(pwd.getpwuid(uid).pw_name, f"OS user, uid {uid}")


def test_a_user_without_an_account_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as some uid."""
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_011)
    assert os_person() == Person("uid-2000000011", "OS user without an account, uid 2000000011")


def test_where_there_is_no_user_database_it_says_that_nothing_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backfill_assets.rebuild.outcome.sys", SimpleNamespace(platform="win32"))
    monkeypatch.setenv("LOGNAME", "ana")
    assert os_person() == Person("ana", "environment variable, not verified")
    assert sys.platform != "win32"


def test_a_person_is_the_same_in_the_journal() -> None:
    """An unknown one leaves nothing there, as entries did before people were recorded."""
    ana = Person("ana", "OS user, uid 1000")
    assert Person.of(BegunReport(waves="100%", who=ana.name, known_by=ana.known_by)) == ana
    assert ApprovalReport(who=UNKNOWN.name, known_by=UNKNOWN.known_by).as_json() == {}
    assert Person.of(BegunReport()) == UNKNOWN and not UNKNOWN
    assert (str(ana), str(UNKNOWN)) == ("ana (OS user, uid 1000)", "unknown")
    assert ana.is_same_as(Person("Ana", "tag user of the Dagster run")) and not UNKNOWN.is_same_as(UNKNOWN)
