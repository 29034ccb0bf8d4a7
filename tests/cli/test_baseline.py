"""`saiten baseline`: pins a run by its name, lists what is pinned, and takes it away."""

import re
from pathlib import Path

from tests.support.command import saiten, served


def test_a_run_is_pinned_listed_and_unpinned(tmp_path: Path) -> None:
    (tmp_path / "chat.csv").write_text("質問,回答\n元気ですか？,はい、元気です。\n", encoding="utf-8")
    with served(tmp_path, SAITEN_JUDGE="lexical") as (url, _):
        done = saiten("batch", "chat.csv", "--name", "夜間/nightly", "--url", url, folder=tmp_path)
        (run,) = re.findall("ba_[0-9a-f]+", done.stdout)
        for arguments, code, told in (
            (("pin", "other", run), 2, "is not a batch of this name"),
            (("pin", "夜間/nightly", run), 0, f"夜間/nightly: {run} is the baseline\n"),
            (("list",), 0, "夜間/nightly\n"),
            (("unpin", "夜間/nightly"), 0, "夜間/nightly: no baseline is pinned\n"),
            (("unpin", "夜間/nightly"), 3, "this name has no pinned baseline"),
        ):
            done = saiten("baseline", *arguments, "--url", url, folder=tmp_path)
            assert done.returncode == code, (arguments, done.stderr)
            assert told in (done.stdout if code == 0 else done.stderr), arguments
