"""Standard streams as they come: in any encoding, closed, full, with a reader that leaves, on any terminal."""

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.command import begin, environment, finish, saiten, saiten_redirected, served, started
from tests.support.nursery import Forked
from tests.support.records import BODY

ITEM = {**BODY, "metadata": {"system": "機械-가"}}

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def write_items(folder: Path, count: int) -> str:
    line = json.dumps(ITEM, ensure_ascii=False)
    (folder / "items.jsonl").write_text("\n".join([line] * count), encoding="utf-8")
    return "items.jsonl"


# Both forms are written to the same stream: each is tried with one of two ways in which Python is told an encoding.
def test_output_is_utf8_whatever_the_locale(tmp_path: Path) -> None:
    file = write_items(tmp_path, 1)
    with served(tmp_path, SAITEN_JUDGE="lexical") as (url, _):
        for form, variables in (
            ("ndjson", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
            ("table", {"PYTHONIOENCODING": "latin-1"}),
        ):
            done = saiten("score", file, "--format", form, "--url", url, folder=tmp_path, stdin=None, **variables)
            assert done.returncode == 0, done.stderr
            assert "機械-가" in done.stdout


def test_a_mistake_in_a_file_of_japanese_name_is_said_in_the_c_locale(tmp_path: Path) -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    (tmp_path / "対話.json").write_bytes(json.dumps([{**ITEM, "rubric": "無い", "話": 1}]).encode())
    done = saiten("score", "対話.json", folder=tmp_path, stdin=None, **locale)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert "item 1: /話" in done.stderr


COMMANDS = {
    "ndjson": ("score", "items.jsonl"),
    "table": ("score", "items.jsonl", "--format", "table"),
    "demo": ("demo",),
    "rubrics": ("rubric", "list"),
    "keys": ("keys", "list"),
    "help": ("--help",),
}


@needs_full
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_full_disk_is_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write_items(tmp_path, 2)
    with Path("/dev/full").open("wb") as full:
        process = begin(*arguments, folder=tmp_path, variables={"SAITEN_LOG_LEVEL": "error"}, stdout=full)
    done = finish(process)
    assert done.returncode == 3, done.stderr
    assert done.stderr.splitlines()[-1] == "saiten: cannot write to standard output: No space left on device"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("score", "items.jsonl"), ("demo",), ("keys", "create")])
def test_without_standard_output_nothing_is_begun(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write_items(tmp_path, 2)
    variables = environment(tmp_path)
    # Descriptor 1 is closed for one that is started by a shell, and for those that are forked.
    if arguments[0] == "keys":
        done = saiten_redirected(">&-", *arguments, folder=tmp_path)
    else:
        done = finish(Forked(arguments, folder=tmp_path, variables=variables, closed=[1]))
    assert done.returncode == 3
    assert done.stderr == "saiten: cannot write to standard output: Bad file descriptor\n"
    assert not (tmp_path / "saiten.db").exists()


def test_without_standard_input_a_file_is_asked_for(tmp_path: Path) -> None:
    done = finish(Forked(["score", "-"], folder=tmp_path, variables=environment(tmp_path), closed=[0]))
    assert done.returncode == 2
    assert done.stderr == "saiten: standard input is closed; name a file, or give the items with `<`\n"


@needs_full
@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_results_do_not_depend_on_standard_error(tmp_path: Path, redirection: str) -> None:
    arguments = ("score", write_items(tmp_path, 2))
    with Path("/dev/full").open("wb") as full:
        closed = [2] if redirection == "2>&-" else []
        variables = environment(tmp_path)
        done = finish(Forked(arguments, folder=tmp_path, variables=variables, closed=closed, stderr=full))
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)


def test_a_reader_that_leaves_ends_the_run_quietly(tmp_path: Path) -> None:
    # 40 results of more than 1 KB do not fit into the pipe, so the run cannot end before its reader has left.
    with started("score", write_items(tmp_path, 40), folder=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        first = process.stdout.readline()
        assert len(first) > 1024
        process.stdout.close()
        remarks = process.stderr.read().decode()
        assert process.wait() == 141
    assert [line for line in remarks.splitlines() if line and not line.startswith("judge: lexical")] == []


def test_a_long_table_that_its_reader_leaves_is_not_taken_for_printed(tmp_path: Path) -> None:
    # 140 rows of 100 columns and more are written as one text that the pipe does not hold.
    with started("score", write_items(tmp_path, 140), "--format", "table", folder=tmp_path) as process:
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait() == 141


def read_terminal(terminal: int) -> str:
    """All that is written to a terminal until its last writer closes it."""
    pieces = []
    try:
        while piece := os.read(terminal, 65_536):
            pieces.append(piece)
    except OSError:  # so Linux says that nobody can write any more
        pass
    finally:
        os.close(terminal)
    return b"".join(pieces).decode()


@pytest.mark.parametrize(
    ("columns", "command"),
    [
        ("1", ("score", "items.jsonl")),
        ("40", ("score", "items.jsonl")),
        ("40", ("demo",)),
        ("1", ("rubric", "show", "ja-dialogue")),
    ],
)
def test_a_terminal_may_be_narrow(tmp_path: Path, columns: str, command: tuple[str, ...]) -> None:
    write_items(tmp_path, 2)
    ours, theirs = os.openpty()
    with started(*command, folder=tmp_path, stdout=theirs, COLUMNS=columns, TERM="xterm") as process:
        os.close(theirs)
        shown = read_terminal(ours)
        assert process.stderr is not None
        remarks = process.stderr.read().decode()
        assert process.wait() == 0, remarks
    assert "Traceback" not in remarks
    assert shown.strip()


def test_the_bar_on_a_terminal_takes_nothing_from_the_results(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    with started("score", write_items(tmp_path, 3), folder=tmp_path, stderr=theirs, TERM="xterm") as process:
        os.close(theirs)
        remarks = read_terminal(ours)
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        assert process.wait() == 0
    assert [json.loads(line)["status"] for line in lines] == ["scored"] * 3
    assert "scoring" in remarks
    assert '"status"' not in remarks


def test_results_line_by_line_and_the_bar_do_not_share_a_terminal(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    command = ("score", write_items(tmp_path, 3), "--format", "ndjson")
    with started(*command, folder=tmp_path, stdout=theirs, stderr=subprocess.STDOUT, TERM="xterm") as process:
        os.close(theirs)
        shown = read_terminal(ours)
        assert process.wait() == 0, shown
    lines = [line for line in shown.splitlines() if line.startswith("{")]
    assert [json.loads(line)["status"] for line in lines] == ["scored"] * 3
    assert "scoring" not in shown
