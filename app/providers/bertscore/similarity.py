"""A loaded encoder: tokenizes texts, embeds tokens in batches, and compares pairs of embeddings."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, TypeVar

from saiten.core.messages import Message
from saiten_server.providers.ports import EncoderUnavailable, Similarity

NO_LIMIT = 1_000_000  # transformers writes 1e30 where a tokenizer states no length, which its own Rust side cannot take
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

        # Lone surrogates, which no tokenizer takes, become U+FFFD.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()
        if not text:  # bert-score asks fast tokenizers for a method they no longer have
            return Tokens((), truncated=False, unknown_share=1.0)
        ids = tuple(sent_encode(self._tokenizer, text))
        whole = {"add_special_tokens": True, "truncation": False, "verbose": False}
        truncated = len(ids) >= self._max_tokens and len(self._tokenizer.encode(text, **whole)) > len(ids)
        said = [token for token in ids if token not in self._not_text]
        share = said.count(self._unknown_id) / len(said) if said else 1.0
        return Tokens(ids, truncated, share)


def find_max_tokens(tokenizer: Any, model: Any) -> int:
    """How many tokens, with the special ones, a text may have: what the tokenizer states, but no more than the model
    has positions for; 512 where neither says."""
    stated = int(min(tokenizer.model_max_length, NO_LIMIT))
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    if table is not None:
        # RoBERTa counts its positions from padding_idx + 1.
        before_first = 0 if table.padding_idx is None else table.padding_idx + 1
        return min(stated, int(table.num_embeddings) - before_first)
    if stated < NO_LIMIT:
        return stated
    of_config = getattr(model.config, "max_position_embeddings", None)
    return of_config if isinstance(of_config, int) and of_config > 0 else DEFAULT_MAX_TOKENS


Ids = tuple[int, ...]

CPU_TOKENS_PER_THREAD = 256
# From about here on a pass of one thread grows no faster a token; from four times that on it slows down, since the
# allocator requests memory from the system for every intermediate result
CPU_TOKENS = 1_024
MOST_TOKENS = 4_096
PADDING_PER_THREAD = 16
MOST_PADDING = 256


@dataclass(frozen=True)
class PassLimits:
    """`max_tokens` of one forward pass, padding included (one text at least), and `max_padding`, how many of them may
    be padding: what a pass costs beside its tokens, in tokens, so that one more pass would not be cheaper."""

    max_tokens: int
    max_padding: int


def limit_passes(device: str, threads: int, max_tokens: int | None = None) -> PassLimits:
    """What suits the device: measured on CPUs (a pass over nothing costs 25 to 35 tokens of one thread, on encoders of
    4 × 256 and of 12 × 768), estimated elsewhere. `max_tokens` None takes what suits it."""
    if device.partition(":")[0] != "cpu":
        return PassLimits(max_tokens or MOST_TOKENS, MOST_PADDING)
    suits = min(max(CPU_TOKENS, CPU_TOKENS_PER_THREAD * threads), MOST_TOKENS)
    return PassLimits(max_tokens or suits, min(PADDING_PER_THREAD * (1 + threads), MOST_PADDING))


def batch_by_length(texts: Iterable[Ids], limits: PassLimits) -> Iterator[list[Ids]]:
    """Longest first, so that texts of like length share a pass."""
    batch: list[Ids] = []
    padding = 0
    for ids in sorted(texts, key=lambda ids: (-len(ids), ids)):
        added = len(batch[0]) - len(ids) if batch else 0
        if batch and ((len(batch) + 1) * len(batch[0]) > limits.max_tokens or padding + added > limits.max_padding):
            yield batch
            batch, padding, added = [], 0, 0
        batch.append(ids)
        padding += added
    if batch:
        yield batch


def slice_pairs(read: Sequence[tuple[Tokens, Tokens]], max_held_tokens: int) -> Iterator[list[int]]:
    """Numbers of the pairs that have tokens, similar lengths together, as many at a time as may be held."""
    comparable = [number for number, (one, other) in enumerate(read) if one.ids and other.ids]
    numbers: list[int] = []
    held: set[Ids] = set()
    count = 0
    for number in sorted(comparable, key=lambda number: sorted(len(tokens.ids) for tokens in read[number])[::-1]):
        texts = {tokens.ids for tokens in read[number]}
        if numbers and count + sum(map(len, texts - held)) > max_held_tokens:
            yield numbers
            numbers, held, count = [], set(), 0
        numbers.append(number)
        count += sum(map(len, texts - held))
        held |= texts
    if numbers:
        yield numbers


MAX_BATCH_PAIRS = 64
MAX_BATCH_CELLS = 1 << 22  # Token-to-token similarities held at once: 16 MiB in float32


@dataclass(frozen=True)
class Embedded:
    """One text: `vectors` of unit length, tokens × dimensions, and `weights`, one a token: 0 or 1."""

    vectors: Any
    weights: Any

    def __len__(self) -> int:
        return len(self.weights)


def match_tokens(pairs: Sequence[tuple[Embedded, Embedded]]) -> list[float]:
    """F1 of each (reference, candidate), in order; every text has at least one token. It is in [-1, 1], and beyond
    only where P and R have opposite signs, which no trained encoder comes near; bert-score does not cut it either.

    precision = the mean over the candidate's tokens of the largest cosine with any token of the reference, recall the
    other way round, F1 = 2PR / (P + R). As in bert-score, [CLS] and [SEP] have weight 0 but may be matched with; where
    a text has no other token, or P + R is 0, F1 is 0; where a vector is not finite, F1 is NaN. Its padding turns a
    negative largest cosine into 0, so that a pair's value depends on its batch; here padding can never be the largest.
    Neighbours in `pairs` are matched together, so similar lengths should stand together."""
    values: list[float] = []
    batch: list[tuple[Embedded, Embedded]] = []
    rows = columns = 0
    for reference, candidate in pairs:
        rows, columns = max(rows, len(candidate)), max(columns, len(reference))
        cells = (len(batch) + 1) * rows * columns
        if batch and (cells > MAX_BATCH_CELLS or len(batch) == MAX_BATCH_PAIRS):
            values += _match_batch(batch)
            batch, rows, columns = [], len(candidate), len(reference)
        batch.append((reference, candidate))
    return values + _match_batch(batch) if batch else values


def _match_batch(pairs: Sequence[tuple[Embedded, Embedded]]) -> list[float]:
    import torch

    reference, reference_weights, reference_mask = _pad([reference for reference, _ in pairs])
    candidate, candidate_weights, candidate_mask = _pad([candidate for _, candidate in pairs])
    cosine = torch.bmm(candidate, reference.transpose(1, 2))
    # A vector's length is 1 up to rounding; how that falls depends on the number of threads.
    best_of_candidate = cosine.masked_fill(~reference_mask.unsqueeze(1), -torch.inf).amax(dim=2).clamp(-1, 1)
    best_of_reference = cosine.masked_fill(~candidate_mask.unsqueeze(2), -torch.inf).amax(dim=1).clamp(-1, 1)
    precision = (best_of_candidate * candidate_weights).sum(dim=1) / candidate_weights.sum(dim=1)
    recall = (best_of_reference * reference_weights).sum(dim=1) / reference_weights.sum(dim=1)
    f1 = 2 * precision * recall / (precision + recall)
    # Only what bert-score calls 0. A value that is no number for another reason is the encoder's, and stays one.
    nothing = (candidate_weights.sum(dim=1) == 0) | (reference_weights.sum(dim=1) == 0) | (precision + recall == 0)
    return [float(value) for value in torch.where(nothing, 0.0, f1).tolist()]


def _pad(texts: Sequence[Embedded]) -> tuple[Any, Any, Any]:
    import torch
    from torch.nn.utils.rnn import pad_sequence

    vectors = pad_sequence([text.vectors for text in texts], batch_first=True)
    weights = pad_sequence([text.weights for text in texts], batch_first=True)
    lengths = torch.tensor([len(text) for text in texts], device=vectors.device)
    mask = torch.arange(vectors.shape[1], device=vectors.device).unsqueeze(0) < lengths.unsqueeze(1)
    return vectors, weights, mask


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Far below the 60 s after which nothing of an erased text may be left: a run may hold what it took from here
MAX_AGE_SECONDS = 20.0


class ByteLimitedCache(Generic[K, V]):
    """An LRU cache with a limit of `max_bytes` for all values together and of `max_age_seconds` for each, counted from
    `put`. For one thread. (cachetools' TTLCache does not say when its next entry expires.) `expire` removes expired
    values and says when to call it next; `get` never returns one."""

    def __init__(self, max_bytes: int, clock: Callable[[], float], max_age_seconds: float = MAX_AGE_SECONDS) -> None:
        self._max_bytes = max_bytes
        self._max_age_seconds = max_age_seconds
        self._clock = clock
        self._entries: OrderedDict[K, tuple[V, int, float]] = OrderedDict()  # value, size in bytes, when it expires
        self._bytes = 0
        self._ends_at = 0.0
        """No value is too old before that."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value, which becomes the most recently used one; None if it is not cached."""
        value, _, ends_at = self._entries.get(key, (None, 0, 0.0))
        if value is None or ends_at <= self._clock():
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, size: int) -> None:
        """Stores a value of `size` bytes, and evicts the least recently used ones."""
        self._remove(key)
        ends_at = self._clock() + self._max_age_seconds
        if not self._entries:
            self._ends_at = ends_at
        self._entries[key] = value, size, ends_at
        self._bytes += size
        while self._bytes > self._max_bytes:
            self._remove(next(iter(self._entries)))

    def expire(self) -> float | None:
        """Removes expired values. Returns the seconds until the next one expires; None if the cache is empty."""
        now = self._clock()
        if self._entries and self._ends_at <= now:
            for key in [key for key, (_, _, ends_at) in self._entries.items() if ends_at <= now]:
                self._remove(key)
            self._ends_at = min((ends_at for _, _, ends_at in self._entries.values()), default=0.0)
        return self._ends_at - now if self._entries else None

    def _remove(self, key: K) -> None:
        _, size, _ = self._entries.pop(key, (None, 0, 0.0))
        self._bytes -= size


MAX_KEPT_BYTES = 64 << 20  # Embeddings of recent texts: some 700 texts of 30 tokens at 768 dimensions
MAX_KEPT_TOKENS_BYTES = 4 << 20
# A small integer in a tuple, and a character of the text that it stands for: rather too much than too little
_BYTES_PER_TOKEN = 40


@dataclass(eq=False, repr=False)
class LoadedEncoder:
    """Compares pairs on one thread. `max_held_tokens` limits the embeddings that one run holds at once (at least one
    pair): 64 MiB at 1,024 dimensions. The embeddings of recent texts are also cached in memory for later runs, at most
    64 MiB and for 20 s; `forget` removes older ones."""

    model: Any
    tokenizing: Tokenizing
    _: KW_ONLY
    identity: str
    device: str
    limits: PassLimits
    max_held_tokens: int = 16_384
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._tokens: ByteLimitedCache[str, Tokens] = ByteLimitedCache(MAX_KEPT_TOKENS_BYTES, self.clock)
        self._embedded: ByteLimitedCache[Ids, Embedded] = ByteLimitedCache(MAX_KEPT_BYTES, self.clock)

    def forget(self) -> float | None:
        """Removes expired cache entries. Returns the seconds until the next one expires; None if empty."""
        waits = [wait for wait in (self._tokens.expire(), self._embedded.expire()) if wait is not None]
        return min(waits, default=None)

    def compare(self, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
        """One similarity per pair, in order. A text without any token has F1 0 with every other. Raises
        EncoderUnavailable if the encoder broke on one of the texts, gave what is no number, or ran out of memory."""
        try:
            return self._compare(pairs)
        except (RuntimeError, ValueError, TypeError, IndexError, MemoryError) as error:
            raise EncoderUnavailable(Message("encoder-failed", error=type(error).__name__)) from error

    def _compare(self, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
        tokens = {text: self._read(text) for text in dict.fromkeys(text for pair in pairs for text in pair)}
        read = [(tokens[reference], tokens[candidate]) for reference, candidate in pairs]
        f1 = [0.0] * len(pairs)
        for numbers in slice_pairs(read, self.max_held_tokens):
            embedded = self._embed({tokens.ids for number in numbers for tokens in read[number]})
            values = match_tokens(
                [(embedded[read[number][0].ids], embedded[read[number][1].ids]) for number in numbers]
            )
            if not all(map(math.isfinite, values)):
                raise EncoderUnavailable(Message("encoder-no-number"))
            for number, value in zip(numbers, values, strict=True):
                f1[number] = value
        return [
            Similarity(value, one.truncated or other.truncated, max(one.unknown_share, other.unknown_share))
            for value, (one, other) in zip(f1, read, strict=True)
        ]

    def _read(self, text: str) -> Tokens:
        tokens = self._tokens.get(text)
        if tokens is None:
            tokens = self.tokenizing.read(text)
            self._tokens.put(text, tokens, (len(tokens.ids) + len(text)) * _BYTES_PER_TOKEN)
        return tokens

    def _embed(self, texts: Iterable[Ids]) -> dict[Ids, Embedded]:
        import torch

        self.forget()
        recent = {ids: self._embedded.get(ids) for ids in texts}
        embedded = {ids: one for ids, one in recent.items() if one is not None}
        with torch.inference_mode():
            for batch in batch_by_length(recent.keys() - embedded.keys(), self.limits):
                for ids, vectors, weights in zip(batch, *self._encode(batch), strict=True):
                    # Copies, since a view would keep the whole batch.
                    one = Embedded(vectors[: len(ids)].clone(), weights[: len(ids)].clone())
                    embedded[ids] = one
                    self._embedded.put(ids, one, one.vectors.nbytes + len(ids) * _BYTES_PER_TOKEN)
                self.forget()
        return embedded

    def _encode(self, batch: Sequence[Ids]) -> tuple[Any, Any]:
        """Vectors of unit length (texts × longest × dimensions) and weights, on the device; what pads is of no use."""
        import torch

        longest, pad_id = len(batch[0]), self.tokenizing.pad_id
        ids = torch.tensor([[*one, *[pad_id] * (longest - len(one))] for one in batch]).to(self.device)
        lengths = torch.tensor([len(one) for one in batch]).to(self.device)
        mask = (torch.arange(longest, device=ids.device) < lengths.unsqueeze(1)).long()
        vectors = self.model(ids, attention_mask=mask)[0].float()
        unweighted = torch.tensor(sorted(self.tokenizing.unweighted_ids), dtype=torch.long).to(self.device)
        return vectors / vectors.norm(dim=-1, keepdim=True), torch.isin(ids, unweighted, invert=True).float()
