"""The cut model against bert-score's own, over the families of encoders that it knows."""

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from saiten_server.providers.bertscore.encoder import choose_layer, cut_layers
from saiten_server.providers.ports import EncoderUnavailable

pytestmark = pytest.mark.skipif(
    any(find_spec(package) is None for package in ("torch", "transformers", "bert_score")),
    reason="the bertscore extra is not installed",
)

BERT = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
BART = {"vocab_size": 50, "d_model": 16, "encoder_layers": 3, "decoder_layers": 1}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
FAMILIES: dict[str, dict[str, Any]] = {
    "AlbertConfig": BERT | {"embedding_size": 8},
    "BartConfig": BART | HEADS | ENDS | {"forced_eos_token_id": 2, "decoder_start_token_id": 2},
    "DebertaV2Config": BERT,
    "DistilBertConfig": {"vocab_size": 50, "dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 16},
    "ModernBertConfig": BERT | ENDS | {"cls_token_id": 1, "sep_token_id": 2},
    "XLMConfig": {"vocab_size": 50, "emb_dim": 16, "n_layers": 3, "n_heads": 2},
    "XLNetConfig": {"vocab_size": 50, "d_model": 16, "n_layer": 3, "n_head": 2, "d_inner": 16},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_cuts_where_bert_score_does(family: str, tmp_path: Path) -> None:
    import torch
    import transformers
    from bert_score.utils import get_model

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = getattr(transformers, family)(**FAMILIES[family])
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path / "whole")
    ids = torch.tensor([[1, 7, 8, 9, 2, 0, 0], [1, 9, 8, 3, 4, 5, 2]])
    mask = torch.tensor([[1] * 5 + [0] * 2, [1] * 7])
    outputs = []
    with torch.no_grad():
        for layers in (1, 3):
            model = cut_layers(transformers.AutoModel.from_pretrained(tmp_path / "whole"), layers)
            expected = get_model(str(tmp_path / "whole"), layers)(ids, attention_mask=mask)[0]
            outputs.append(model(ids, attention_mask=mask)[0][mask.bool()])
            torch.testing.assert_close(outputs[-1], expected[mask.bool()])
    assert not torch.allclose(*outputs)


def test_refuses_a_model_that_is_no_encoder() -> None:
    import transformers

    config = transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2)
    with pytest.raises(EncoderUnavailable, match="no way to take a layer of a GPT2Model"):
        cut_layers(transformers.AutoModel.from_config(config), 1)


@pytest.mark.parametrize(
    ("name", "asked", "count", "layer"),
    [
        ("bert-base-multilingual-cased", None, 12, 9),
        ("bert-base-multilingual-cased", 12, 12, 12),
        ("somewhere/bert-base-multilingual-cased", None, 12, 9),
        ("models/deberta-base", None, 12, 9),  # bert-score lists it as microsoft/deberta-base
        ("models/unheard-of", None, 6, 6),
        ("models/roberta-large", None, 4, 4),  # a smaller one of that name
        ("models/unheard-of", 0, 6, 0),
    ],
)
def test_chooses_a_layer(name: str, asked: int | None, count: int, layer: int) -> None:
    assert choose_layer(name, asked, SimpleNamespace(num_hidden_layers=count)) == layer


@pytest.mark.parametrize("asked", [-1, 13])
def test_refuses_a_layer_out_of_range(asked: int) -> None:
    with pytest.raises(EncoderUnavailable, match=f"has layers 0 to 12, not {asked}"):
        choose_layer("bert-base-multilingual-cased", asked, SimpleNamespace(num_hidden_layers=12))
