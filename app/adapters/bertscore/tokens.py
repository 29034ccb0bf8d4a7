"""A text as the encoder's tokens, with what was lost on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NO_LIMIT = 1_000_000
"""transformers writes 1e30 where a tokenizer states no length, which its own Rust side cannot take."""
DEFAULT_MAX_TOKENS = 512


@dataclass(frozen=True)
class Tokens:
    """`ids` with the special tokens, empty for a blank text. `unknown_share` is that of the unknown tokens among the
    others but the special ones, in [0, 1]; 1 where there is none, for then nothing of the text was understood."""

    ids: tuple[int, ...]
    truncated: bool
    unknown_share: float


class Tokenizing:
    """Tokenizes as bert-score does, up to `max_tokens` with the special ones."""

    def __init__(self, tokenizer: Any, max_tokens: int) -> None:
        self._tokenizer = tokenizer
        tokenizer.model_max_length = max_tokens  # bert-score's sent_encode cuts there
        self._max_tokens = max_tokens
        self._unknown_id = tokenizer.unk_token_id
        # A SentencePiece tokenizer puts a bare space marker before an unknown word: that is no word it knows.
        marker = tokenizer.convert_tokens_to_ids("▁")
        self._not_text = ({*tokenizer.all_special_ids} | {marker}) - {self._unknown_id}
        self.unweighted_ids = frozenset({tokenizer.sep_token_id, tokenizer.cls_token_id} - {None})
        self.pad_id = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def read(self, text: str) -> Tokens:
        from bert_score.utils import sent_encode

        text = _replace_surrogates(text).strip()
        if not text:  # bert-score asks fast tokenizers for a method they no longer have
            return Tokens((), truncated=False, unknown_share=1.0)
        ids = tuple(sent_encode(self._tokenizer, text))
        said = [token for token in ids if token not in self._not_text]
        share = said.count(self._unknown_id) / len(said) if said else 1.0
        return Tokens(ids, self._is_cut(text, len(ids)), share)

    def _is_cut(self, text: str, length: int) -> bool:
        if length < self._max_tokens:
            return False
        return len(self._tokenizer.encode(text, add_special_tokens=True, truncation=False, verbose=False)) > length


def find_max_tokens(tokenizer: Any, model: Any) -> int:
    """How many tokens, with the special ones, a text may have: what the tokenizer states, but no more than the model
    has positions for; 512 where neither says."""
    stated = int(min(tokenizer.model_max_length, NO_LIMIT))
    positions = _count_positions(model)
    if positions is not None:
        return min(stated, positions)
    if stated < NO_LIMIT:
        return stated
    of_config = getattr(model.config, "max_position_embeddings", None)
    return of_config if isinstance(of_config, int) and of_config > 0 else DEFAULT_MAX_TOKENS


def _count_positions(model: Any) -> int | None:
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    if table is None:
        return None
    # RoBERTa counts its positions from padding_idx + 1.
    before_first = 0 if table.padding_idx is None else table.padding_idx + 1
    return int(table.num_embeddings) - before_first


def _replace_surrogates(text: str) -> str:
    """Lone surrogates, which no tokenizer takes, become U+FFFD; any other text stays as it was."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
