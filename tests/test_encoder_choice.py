"""A mistyped encoder is said at start, with what was tried."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from saiten_server.container import warm_up
from saiten_server.platform.settings import Settings
from saiten_server.providers.registry import find_encoder_faults
from tests.support.command import saiten
from tests.support.gate_files import write_lines
from tests.support.posted import make_item

# Looked for and not imported: that would load PyTorch in every process that collects the tests.
pytestmark = pytest.mark.skipif(find_spec("bert_score") is None, reason="the bertscore extra is not installed")


async def now(_: float) -> None:
    return


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"encoder": "of"}, "SAITEN_ENCODER=of: encoder of is no local folder, not in the cache"),
        ({"encoder": "/models/brt"}, "SAITEN_ENCODER=/models/brt: the encoder's folder brt does not exist"),
        ({"encoder_ko": "klue/rberta"}, "SAITEN_ENCODER_KO=klue/rberta: "),
        ({"encoder": "a\nb c"}, "SAITEN_ENCODER=a b c: "),
    ],
)
async def test_a_mistyped_encoder_is_said_at_start(
    settings: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    await warm_up(Settings(**settings), sleep=now)
    (told,) = [record.getMessage() for record in caplog.records if "SAITEN_ENCODER" in record.getMessage()]
    assert words in told
    assert "blended values are null" in told
    assert "\n" not in told


def test_an_encoder_that_is_there_or_switched_off_is_not_named(tmp_path: Path) -> None:
    assert find_encoder_faults(Settings(encoder=str(tmp_path))) == []
    assert find_encoder_faults(Settings(encoder="off", encoder_ja="mistyped")) == []
    assert find_encoder_faults(Settings()) == []


def test_score_says_so_before_it_scores(tmp_path: Path) -> None:
    write_lines(tmp_path / "items.ndjson", [make_item(0)])
    done = saiten("score", "items.ndjson", folder=tmp_path, SAITEN_ENCODER="/models/brt")
    assert done.returncode == 0
    assert "SAITEN_ENCODER=/models/brt: the encoder's folder brt does not exist" in done.stderr.splitlines()[0]
