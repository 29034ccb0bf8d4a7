"""`saiten audit`, and what the commands that administer leave in it."""

import json
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from saiten_server.cli.process import cli_actor
from tests.support.command import saiten


def test_what_was_done_with_keys_is_shown(tmp_path: Path) -> None:
    assert "nothing was administered yet" in saiten("audit", folder=tmp_path).stdout
    made = saiten("keys", "create", "--scope", "admin", "--project", "team", folder=tmp_path)
    key = made.stderr.partition(":")[0]
    saiten("keys", "create", folder=tmp_path)
    assert saiten("keys", "revoke", key, folder=tmp_path).returncode == 0
    assert saiten("keys", "revoke", key, folder=tmp_path).returncode == 3
    lines = [json.loads(line) for line in saiten("audit", "--json", folder=tmp_path).stdout.splitlines()]
    assert [line["action"] for line in lines] == ["key.revoked", "key.created", "key.created"]
    assert {line["actor"] for line in lines} == {f"cli:{pwd.getpwuid(os.getuid()).pw_name}"}
    assert (lines[0]["target"], lines[0]["project"], lines[0]["detail"]["scope"]) == (key, "team", "admin")
    shown = saiten("audit", "--project", "team", folder=tmp_path).stdout
    assert shown.count(key) == 2
    assert "default" not in shown
    newest = saiten("audit", "--json", "--limit", "1", folder=tmp_path).stdout.splitlines()
    assert [json.loads(line) for line in newest] == lines[:1]
    assert made.stdout.strip() not in saiten("audit", "--json", folder=tmp_path).stdout


def test_a_user_without_a_name_is_told_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless(_: int) -> pwd.struct_passwd:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(pwd, "getpwuid", nameless)
    monkeypatch.setattr("os.getuid", lambda: 10_001)
    assert cli_actor() == "cli:uid 10001"


def test_the_environment_does_not_say_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert cli_actor() == f"cli:{pwd.getpwuid(os.getuid()).pw_name}"


def test_a_name_cannot_steer_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = SimpleNamespace(pw_name="a\x1b[2Jb" + "c" * 100)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: strange)
    assert cli_actor() == "cli:" + ("a\ufffd[2Jb" + "c" * 100)[:64]
