"""Finds the spans of a suspicious text to remove so that nothing suspicious is left.

Detection works on folded text, whose positions do not map back to the raw text. Spans are therefore found by trial:
parts of the raw text are inspected with and without each other, under a budget that keeps the total time linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from saiten.core.messages import Message
from saiten_server.core.evaluation import MaskedSpan, Warned
from saiten_server.core.folding import fold
from saiten_server.core.sentences import in_english
from saiten_server.text.injection.inspection import find_kinds, fold_names, read_plainly, recall_findings
from saiten_server.text.injection.signs import compiled, hidden_spans, located_payloads

NOTHING_LEFT = "…"  # What stands where all of a text is left out: a judge needs something to rate
MASKED = -2.0  # What a part must score to be left out: beside an attack, what is nearly suspicious belongs to it
MOST_MASKED_PARTS = 256  # Parts that a text is cut into at most; a text of more has its sentences taken together
# How often the length of the whole text is inspected, all trials together, before all of it is left out
MOST_READINGS = 12
LEAST_BUDGET = 20_000  # Characters that may always be inspected: of a short text no trial needs to be saved
DIALOGUE_BUDGET = 12 * LEAST_BUDGET  # Characters that may be inspected in all texts of one dialogue together
LOCATING_BUDGET = 3 * LEAST_BUDGET  # The same, only to tell where it is; texts beyond are suspicious as a whole
CALL = 40  # Characters that cost as much as an inspection of nothing
MOST_RESTORED = 8  # Up to this many removed parts, each is tried again to see whether it can stay
# A sentence with its end and the white space after it, in the raw text; or a line's
SENTENCE = r"(?:[^。｡．.!?！？\n]|[.．](?![\s<\[(（]|\Z))*(?:[。｡．.!?！？]+[」』）)”\"']?)?\s*"
Check = Callable[[str], bool]
CheckOfSeveral = Callable[[Sequence[int]], bool]


class TextSpan(NamedTuple):
    """Code points `start` to `end` of the raw text."""

    start: int
    end: int


class MaskedSentence(NamedTuple):
    """A part of the raw text, and what of it is left once hidden characters and payloads are out."""

    span: TextSpan
    shown: str


class InspectionBudgetSpent(Exception):
    """The text, or its dialogue, was looked at as often as it may be."""


class InspectionBudget:
    """Characters that may still be inspected, in all texts of one dialogue together. `checkpoint` is called before each
    inspection, and may raise to end the work."""

    def __init__(self, characters: int = DIALOGUE_BUDGET, checkpoint: Callable[[], None] = lambda: None) -> None:
        self.characters = characters
        self.checkpoint = checkpoint

    def take(self, characters: int) -> None:
        """Raises InspectionBudgetSpent, and takes nothing, if there are fewer: a shorter text may yet have its turn."""
        self.checkpoint()
        if characters > self.characters:
            raise InspectionBudgetSpent
        self.characters -= characters


def find_spans(
    text: str, *, aspects: Sequence[str] = (), budget: InspectionBudget | None = None
) -> tuple[TextSpan, ...]:
    """The spans to leave out, sorted and disjoint; none where the text raises no suspicion.

    Hidden characters and encoded instructions go by themselves. Else whole sentences or lines go: those that are
    suspicious alone, then neighbours that are so together, then the ends of what is so at a distance; and the whole
    text where that takes too long. `without` these spans the text raises no suspicion. `aspects` as in `inspect_text`.
    `budget` is shared by the texts of a dialogue; by default the text has one to itself."""
    shared = budget or InspectionBudget()
    shared.checkpoint()
    if not recall_findings(text, tuple(aspects)):
        return ()
    folded = fold_names(tuple(aspects))

    def suspicious(part: str) -> bool:
        return bool(find_kinds(part, folded, MASKED))

    own = InspectionBudget(max(LEAST_BUDGET, MOST_READINGS * len(text)))

    def trial(part: str) -> bool:
        own.take(len(part) + CALL)
        shared.take(len(part) + CALL)
        return bool(part) and suspicious(part)

    whole = (TextSpan(0, len(text)),)
    try:
        # For what is done to all of the text besides trials.
        shared.take(len(text) + CALL)
        spans = search(text, folded, trial)
        # What stands at a text's ends is trimmed, and what was apart may meet: the result itself is what counts.
        left = without(text, spans)
        shared.take(len(left) + CALL)
    except InspectionBudgetSpent:
        return whole
    return whole if suspicious(left) else spans


def locate_warnings(
    warned: Sequence[Warned],
    places: Mapping[str, str],
    *,
    aspects: Sequence[str] = (),
    checkpoint: Callable[[], None] = lambda: None,
) -> tuple[Warned, ...]:
    """The warnings of `inspect_texts` with the spans that they are about, which `detail` names too. `places` and the
    other arguments are those that it had."""
    budget = InspectionBudget(LOCATING_BUDGET, checkpoint)
    known: dict[str, tuple[TextSpan, ...]] = {}
    for text in dict.fromkeys(places[one.where] for one in warned):
        known[text] = find_spans(text, aspects=aspects, budget=budget)
    return tuple(mark_spans(one, known[places[one.where]]) for one in warned)


def mark_spans(warned: Warned, spans: Sequence[TextSpan]) -> Warned:
    """The warning with these spans of its text, of which there is at least one."""
    (start, end), *more = spans
    where = Message("attack-at", what=warned.sentence, first=start + 1, last=end)
    if more:
        where = Message("attack-at-places", **where.values, places=len(spans))
    return Warned(
        code=warned.code,
        where=warned.where,
        **in_english(where),
        spans=tuple(MaskedSpan(where=warned.where, start=start, end=end) for start, end in spans),
    )


def without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text less these sorted and disjoint spans; `…` where nothing would be left, and as it is without spans."""
    found = list(spans)
    if not found:
        return text
    starts = [0, *(end for _, end in found)]
    ends = [*(start for start, _ in found), len(text)]
    return "".join(text[start:end] for start, end in zip(starts, ends, strict=True)).strip() or NOTHING_LEFT


def search(text: str, aspects: Sequence[str], trial: Check) -> tuple[TextSpan, ...]:
    """The spans of a suspicious text. Raises InspectionBudgetSpent."""
    payloads = (span for decoded, span in located_payloads(text) if read_plainly(fold(decoded), aspects))
    fine = merge(text, (*hidden_spans(text), *payloads))
    if fine and not trial(without(text, fine)):
        return fine
    sentences = cut_sentences(text, fine)
    units = find_units(sentences, trial)
    if len(units) <= MOST_RESTORED:
        units = drop_needless(sentences, units, trial)
    return merge(text, (*fine, *(sentences[number].span for unit in units for number in unit)))


def cut_sentences(text: str, fine: Sequence[TextSpan]) -> list[MaskedSentence]:
    """The text's sentences, without what is empty once the fine spans are out."""
    spans = [TextSpan(*match.span()) for match in compiled(SENTENCE).finditer(text) if match[0]]
    size = -(-len(spans) // MOST_MASKED_PARTS) or 1
    shown = bytearray(b"\x01") * len(text)
    for start, end in fine:
        shown[start:end] = bytes(end - start)
    found = []
    for first in range(0, len(spans), size):
        start, end = spans[first].start, spans[first : first + size][-1].end
        left = "".join(text[place] for place in range(start, end) if shown[place])
        if left:
            found.append(MaskedSentence(TextSpan(start, end), left))
    return found


def join_sentences(sentences: Sequence[MaskedSentence], numbers: Iterable[int]) -> str:
    """These sentences together, as they are shown."""
    return "".join(sentences[number].shown for number in numbers).strip()


def find_units(sentences: Sequence[MaskedSentence], trial: Check) -> list[tuple[int, ...]]:
    """The numbers of the sentences to leave out; what is suspicious only together is one unit."""

    def suspicious(numbers: Sequence[int]) -> bool:
        return trial(join_sentences(sentences, numbers))

    kept = list(range(len(sentences)))
    units = find_alone(kept, suspicious)
    kept = less(kept, units)
    if not (kept and suspicious(kept)):
        return units
    units += pair_neighbours(kept, suspicious)
    kept = less(kept, units)
    while kept and suspicious(kept):
        units.append(narrow(kept, suspicious))
        kept = less(kept, units)
    return units


def find_alone(row: Sequence[int], suspicious: CheckOfSeveral) -> list[tuple[int, ...]]:
    """The sentences that are suspicious by themselves, wherever a part of the text around them is so too."""
    if not suspicious(row):
        return []
    if len(row) == 1:
        return [(row[0],)]
    half = len(row) // 2
    return find_alone(row[:half], suspicious) + find_alone(row[half:], suspicious)


def less(kept: Iterable[int], units: Iterable[tuple[int, ...]]) -> list[int]:
    """The numbers that are in no unit."""
    gone = set(chain.from_iterable(units))
    return [number for number in kept if number not in gone]


def pair_neighbours(kept: Sequence[int], suspicious: CheckOfSeveral) -> list[tuple[int, ...]]:
    """Neighbours that are suspicious together; each sentence in one pair at most."""
    found: list[tuple[int, ...]] = []
    for pair in pairwise(kept):
        if not (found and pair[0] == found[-1][-1]) and suspicious(pair):
            found.append(pair)
    return found


def narrow(kept: Sequence[int], suspicious: CheckOfSeveral) -> tuple[int, ...]:
    """First and last of a row of sentences that is suspicious, and is not so without either of them."""
    row = halve(kept, suspicious)
    clean, end = 0, len(row)
    while end - clean > 1:
        middle = (clean + end) // 2
        if suspicious(row[:middle]):
            end = middle
        else:
            clean = middle
    start, beyond = 0, end
    while beyond - start > 1:
        middle = (start + beyond) // 2
        if suspicious(row[middle:end]):
            start = middle
        else:
            beyond = middle
    return tuple(dict.fromkeys((row[start], row[end - 1])))


def halve(row: Sequence[int], suspicious: CheckOfSeveral) -> Sequence[int]:
    """The shortest suspicious part that is found by halving: much cheaper than going through it from its ends."""
    while len(row) > 2:
        half, quarter = len(row) // 2, len(row) // 4
        parts = (row[:half], row[half:], row[quarter : quarter + half])
        smaller = next((part for part in parts if suspicious(part)), None)
        if smaller is None:
            return row
        row = smaller
    return row


def drop_needless(
    sentences: Sequence[MaskedSentence], units: Sequence[tuple[int, ...]], trial: Check
) -> list[tuple[int, ...]]:
    """The units without those that can stay where the others go: what is suspicious alone may be harmless in place."""
    needed = list(units)
    everything = range(len(sentences))
    for unit in units:
        others = [other for other in needed if other != unit]
        if not trial(join_sentences(sentences, less(everything, others))):
            needed = others
    return needed


def merge(text: str, spans: Iterable[tuple[int, int]]) -> tuple[TextSpan, ...]:
    """The spans sorted, with those that overlap or have only white space between them made one."""
    merged: list[TextSpan] = []
    for start, end in sorted(spans):
        if merged and not text[merged[-1].end : start].strip():
            merged[-1] = TextSpan(merged[-1].start, max(merged[-1].end, end))
        else:
            merged.append(TextSpan(start, end))
    return tuple(merged)
