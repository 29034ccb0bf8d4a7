"""`saiten reopen` ends the judge's pause."""

from pathlib import Path

from tests.support.command import saiten, served


def test_a_service_is_told_to_call_its_judge_again(tmp_path: Path) -> None:
    with served(tmp_path, SAITEN_JUDGE="lexical") as (url, _):
        done = saiten("reopen", "--url", url, folder=tmp_path)
        assert (done.returncode, done.stdout) == (0, "there was no pause\n")
    assert saiten("reopen", folder=tmp_path).returncode == 2
