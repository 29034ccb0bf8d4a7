"""Encoders with random weights, as slow as trained ones of their size: the files of which both sides load."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.relevance_texts import CHARACTERS, write_english

SPREAD = 0.02
"""Of the random weights, as BERT was begun with."""


@dataclass(frozen=True)
class Size:
    layers: int
    hidden: int

    def __str__(self) -> str:
        return f"{self.layers} × {self.hidden}"

    @property
    def dimensions(self) -> dict[str, Any]:
        """What a configuration of transformers takes."""
        return {
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.hidden // 64,
            "intermediate_size": 4 * self.hidden,
            "initializer_range": SPREAD,
        }


SMALL = Size(4, 256)
BASE = Size(12, 768)


def save_japanese(folder: Path, size: Size) -> Path:
    """BERT with MeCab and a character vocabulary."""
    import torch
    from transformers import BertConfig, BertJapaneseTokenizer, BertModel

    folder.mkdir(parents=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *CHARACTERS, *(f"##{one}" for one in CHARACTERS)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(vocabulary), **size.dimensions)).save_pretrained(folder)
    BertJapaneseTokenizer(
        str(folder / "vocab.txt"),
        word_tokenizer_type="mecab",
        mecab_kwargs={"mecab_dic": "unidic_lite"},
        model_max_length=512,
    ).save_pretrained(folder)
    return folder


def save_english(folder: Path, size: Size) -> Path:
    """RoBERTa with a byte-level BPE that is learned from such texts, and a fast tokenizer's files."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaConfig, RobertaModel, RobertaTokenizer

    folder.mkdir(parents=True)
    choose = random.Random(1)
    learned = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    texts = [write_english(choose) for _ in range(1_000)]
    learned.train_from_iterator(texts, vocab_size=500, min_frequency=2, special_tokens=special, show_progress=False)
    learned.save_model(str(folder))
    merges = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    tokenizer = RobertaTokenizer(
        vocab=learned.get_vocab(), merges=[tuple(merge.split(" ")) for merge in merges], model_max_length=512
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=514, type_vocab_size=1, **size.dimensions)
    RobertaModel(config).save_pretrained(folder)
    return folder


SAVERS = {"ja": save_japanese, "en": save_english}
