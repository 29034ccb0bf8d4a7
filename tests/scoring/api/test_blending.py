"""Blended values over HTTP: c + 10(b − b̄), b as `bert_score.score` gives it for the pair alone."""

import asyncio
import statistics
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from saiten_server.scoring.relevance import load_calibration
from tests.support.encoders import save_mecab, save_sentencepiece, save_wordpiece
from tests.support.fake_openai import FakeOpenAI
from tests.support.records import BODY
from tests.support.serving import judged_by, serving

# To import bert_score is to import PyTorch, which every process that collects the tests would do.
pytestmark = pytest.mark.skipif(find_spec("bert_score") is None, reason="the bertscore extra is not installed")

LAYER = 2
RESPONSES = [
    "おはよう、よく眠れた？",
    "おはよう",  # identical: b = 1
    "昨日は雨だったので、家で本を読んでいました。とても面白かったです。" * 8,  # longer than the encoder reads
    "うん",
    "𓀀𓀁𓀂",  # unknown to every vocabulary
    "OK 👍",
    "そうですね、朝から元気ですね。",
]


def alone(folder: Path) -> Callable[[str, str], float]:
    """F1 by the package, asked for one pair at a time; its scorer loads the model once."""
    import bert_score
    import torch

    torch.set_num_threads(1)  # on matrices this small more threads only get into each other's way
    scorer = bert_score.BERTScorer(model_type=str(folder), num_layers=LAYER)
    return lambda last_utterance, response: float(scorer.score([response], [last_utterance])[2][0])


@pytest.mark.parametrize("save", [save_wordpiece, save_mecab, save_sentencepiece])
@pytest.mark.filterwarnings("ignore")
async def test_blended_values(save: Callable[[Path], Path], fake: FakeOpenAI, tmp_path: Path) -> None:
    folder = save(tmp_path / "encoder")
    settings = judged_by(fake, encoder=str(folder), encoder_layer=LAYER, encoder_threads=1)
    async with serving(tmp_path, **settings) as client:
        sent = (client.post("/v1/evaluations", json={**BODY, "response": response}) for response in RESPONSES)
        answers = [response.json() for response in await asyncio.gather(*sent)]
    calibration = load_calibration("ja")
    assert calibration is not None
    score_alone = alone(folder)
    expected = statistics.fmean(score_alone(*pair) for pair in calibration.texts)
    for response, answer in zip(RESPONSES, answers, strict=True):
        relevance, aspect = answer["relevance"], answer["aspects"]["relevance"]
        assert relevance["unavailable"] is None
        assert relevance["score"] == pytest.approx(score_alone("おはよう", response), abs=1e-5)
        assert relevance["baseline"] == pytest.approx(expected, abs=1e-5)
        assert aspect["rating"] == 3
        assert aspect["blended"] == pytest.approx(3 + 10 * (relevance["score"] - relevance["baseline"]), abs=1e-12)
        assert f"baseline:calibration={relevance['baseline']:.4f}" in answer["signature"]
    assert answers[1]["relevance"]["score"] == pytest.approx(1, abs=1e-6)
    assert answers[2]["relevance"]["truncated"] is True
    assert "similarity-truncated" in {warning["code"] for warning in answers[2]["warnings"]}
    assert len({answer["signature"] for answer in answers}) == 1
