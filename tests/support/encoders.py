"""Tiny encoders with random weights by a fixed seed, saved as Hugging Face folders: one a kind of tokenizer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.tiny_lm import seed_torch

LAYERS = 3
MAX_TOKENS = 64
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LINES = [
    "the cat sat on a mat today we went to see film rain train coffee good morning night",
    "今日 明日 映画 雨 電車 駅 犬 猫 散歩 好き 食べ 行き 見 です ます まし た て に は が を の も ね よ か",
    "오늘 내일 영화 비 기차 강아지 고양이 산책 좋아 먹 갔 봤 어요 습니다 은 는 이 가 을 를 에 도",
]
WORDS = [word for line in LINES for word in line.split()]


def list_vocabulary() -> list[str]:
    """Special tokens, own words, and every letter, kana and a few hangul alone and as a continuation."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)] + list("0123456789.,!?'、。！？ー〜…")
    kana = [chr(code) for code in [*range(0x3041, 0x3094), *range(0x30A1, 0x30F5)]]
    hangul = list("가나다라마바사아자차카타파하고그기는니다도들러를만면서시어에오요은을의이저지")
    pieces = list(dict.fromkeys([*WORDS, *letters, *kana, *hangul]))
    return [*SPECIAL, *pieces, *(f"##{piece}" for piece in pieces)]


def save_wordpiece(folder: Path, seed: int = 1) -> Path:
    """BERT with WordPiece, as the multilingual default has it."""
    from transformers import BertTokenizerFast

    vocabulary = {piece: number for number, piece in enumerate(list_vocabulary())}
    # transformers 5 silently ignores vocab_file= here.
    tokenizer = BertTokenizerFast(vocab=vocabulary, do_lower_case=False, model_max_length=MAX_TOKENS)
    return _save(tokenizer, _build_bert(len(vocabulary), seed), folder, opposition=1.2)


def save_mecab(folder: Path, seed: int = 2) -> Path:
    """BERT with MeCab words cut by WordPiece, as Japanese encoders have it."""
    from transformers import BertJapaneseTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = list_vocabulary()
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    tokenizer = BertJapaneseTokenizer(
        str(folder / "vocab.txt"),
        word_tokenizer_type="mecab",
        mecab_kwargs={"mecab_dic": "unidic_lite"},
        model_max_length=MAX_TOKENS,
    )
    return _save(tokenizer, _build_bert(len(vocabulary), seed), folder, opposition=1.4)


def save_sentencepiece(folder: Path, seed: int = 3) -> Path:
    """XLM-RoBERTa with a SentencePiece unigram vocabulary; its positions begin after the padding's number."""
    from transformers import XLMRobertaConfig, XLMRobertaModel

    tokenizer = _build_unigram()
    seed_torch(seed)
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=MAX_TOKENS + 2, type_vocab_size=1, **_dimensions()
    )
    return _save(tokenizer, XLMRobertaModel(config), folder, opposition=1.8)


def save_t5(folder: Path, seed: int = 4) -> Path:
    """T5: no [CLS] and no [SEP], relative positions, only the encoder half is wanted."""
    from transformers import T5Config, T5Model

    tokenizer = _build_unigram()
    seed_torch(seed)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=LAYERS,
        num_heads=4,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    return _save(tokenizer, T5Model(config), folder, opposition=0.8)


def save_roberta(folder: Path, seed: int = 5) -> Path:
    """RoBERTa with byte-level BPE, as the English default has it."""
    from tokenizers import pre_tokenizers
    from transformers import RobertaConfig, RobertaModel, RobertaTokenizer

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("a", "t"), ("i", "n")]
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *letters, *("".join(merge) for merge in merges)]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = RobertaTokenizer(vocab=vocabulary, merges=merges, model_max_length=MAX_TOKENS)
    seed_torch(seed)
    config = RobertaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=MAX_TOKENS + 2, type_vocab_size=1, **_dimensions()
    )
    return _save(tokenizer, RobertaModel(config), folder, opposition=1.2)


KINDS: dict[str, Callable[[Path], Path]] = {
    "wordpiece": save_wordpiece,
    "mecab": save_mecab,
    "sentencepiece": save_sentencepiece,
    "t5": save_t5,
    "roberta": save_roberta,
}


def edit_config(folder: Path, file: str, **changes: Any) -> None:
    """Changes fields of one of the folder's JSON files in place; None removes the field."""
    path = folder / file
    content = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}), encoding="utf-8")


def _build_bert(vocabulary_size: int, seed: int) -> Any:
    from transformers import BertConfig, BertModel

    seed_torch(seed)
    return BertModel(BertConfig(vocab_size=vocabulary_size, max_position_embeddings=MAX_TOKENS, **_dimensions()))


def _build_unigram() -> Any:
    from transformers import XLMRobertaTokenizer

    pieces = [piece for piece in list_vocabulary() if piece not in SPECIAL and not piece.startswith("##")]
    # Longer pieces are likelier than the letters they are made of, as a trained vocabulary has it.
    scored = [(f"▁{piece}", -4.0) for piece in pieces] + [(piece, -6.0 / len(piece)) for piece in pieces]
    special = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    vocabulary = [*special, ("▁", -5.0), *scored, ("<mask>", 0.0)]
    return XLMRobertaTokenizer(vocab=vocabulary, model_max_length=MAX_TOKENS)


def _dimensions() -> dict[str, Any]:
    return {
        "hidden_size": 32,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "initializer_range": 0.1,
    }


def _oppose_scripts(tokenizer: Any, model: Any, strength: float) -> None:
    """Turns Latin letters against all else, special tokens too: a Latin token's best match with a Japanese text then
    has a negative similarity, which random weights alone never give and which padding must not hide."""
    import torch

    table = model.get_input_embeddings().weight
    direction = torch.nn.functional.normalize(torch.randn(table.shape[1]), dim=0)
    pieces = tokenizer.convert_ids_to_tokens(list(range(table.shape[0])))
    special = set(tokenizer.all_special_tokens)
    signs = [1.0 if piece not in special and piece.strip("#▁Ġ").isascii() else -1.0 for piece in pieces]
    spread = float(table.detach().norm(dim=1).mean())
    with torch.no_grad():
        table += strength * spread * torch.tensor(signs).unsqueeze(1) * direction


def _save(tokenizer: Any, model: Any, folder: Path, opposition: float) -> Path:
    _oppose_scripts(tokenizer, model, opposition)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder
