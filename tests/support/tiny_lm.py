"""Tiny language models with random weights by a fixed seed, saved as Hugging Face folders."""

import json
from functools import cache
from pathlib import Path
from typing import Any

WINDOW = 64
START = "<|endoftext|>"
RUBRICS = Path(__file__).parents[2] / "rubrics"


def save_gpt2(folder: Path, seed: int = 1, *, bos: bool = True, positions: int = WINDOW) -> Path:
    """GPT-2 with byte-level BPE: every text has tokens. Without `bos` the tokenizer names no token for the beginning."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = build_bytes(positions, bos=bos)
    seed_torch(seed)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=positions,
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
        # Large, so that what stands before a token shows clearly in its likelihood.
        initializer_range=0.3,
    )
    return save(tokenizer, GPT2LMHeadModel(config), folder)


def save_llama(folder: Path, seed: int = 2) -> Path:
    """Llama: rotary positions, a head of its own, and no limit that its weights would set."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = build_bytes(WINDOW)
    seed_torch(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=WINDOW,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.3,
    )
    return save(tokenizer, LlamaForCausalLM(config), folder)


CHAT_TEMPLATE = """{%- for message in messages %}<{{ message.role }}>
{{ message.content }}
{% endfor %}{%- if add_generation_prompt %}<assistant>
{% endif %}"""
LONG_WINDOW = 32_768


def save_judge(folder: Path, seed: int = 4, *, template: str | None = CHAT_TEMPLATE, window: int = LONG_WINDOW) -> Path:
    """Llama with a chat template and a window that prompts fit into. What it says is random."""
    from transformers import GPT2Tokenizer, LlamaConfig, LlamaForCausalLM

    vocabulary, merges = learn_pieces()
    tokenizer = GPT2Tokenizer(vocab=vocabulary, merges=merges, model_max_length=window)
    tokenizer.chat_template = template
    seed_torch(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=window,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.3,
    )
    return save(tokenizer, LlamaForCausalLM(config), folder)


def save_masked(folder: Path, seed: int = 3) -> Path:
    """BERT, which transformers loads as a causal language model with no more than a warning."""
    from transformers import BertConfig, BertForMaskedLM

    tokenizer = build_bytes(WINDOW)
    seed_torch(seed)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=WINDOW,
        initializer_range=0.3,
    )
    return save(tokenizer, BertForMaskedLM(config), folder)


@cache
def learn_pieces() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges of byte-level BPE for texts like our rubrics: a prompt in single bytes is five times as
    long, and takes gigabytes."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    learned = Tokenizer(BPE())
    learned.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(
        vocab_size=4_000, special_tokens=[START], initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    learned.train_from_iterator([path.read_text(encoding="utf-8") for path in sorted(RUBRICS.glob("*.yaml"))], trainer)
    model = json.loads(learned.to_str())["model"]
    return model["vocab"], [(first, second) for first, second in model["merges"]]


def build_bytes(positions: int, *, bos: bool = True) -> Any:
    """Byte-level BPE with a few merges, as GPT-2 has it."""
    from tokenizers import pre_tokenizers
    from transformers import GPT2Tokenizer

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("a", "t"), ("i", "n")]
    pieces = [START, *letters, *("".join(merge) for merge in merges)]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    named = {} if bos else {"bos_token": None}
    return GPT2Tokenizer(vocab=vocabulary, merges=merges, model_max_length=positions, **named)


def seed_torch(seed: int) -> None:
    import torch

    torch.manual_seed(seed)


def save(tokenizer: Any, model: Any, folder: Path) -> Path:
    """Writes both into the folder."""
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder
