"""Looks at untrusted text for attacks on the judge. It only looks: the text stays as it is and nothing is refused."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from hashlib import blake2b

from app.domain.dialogue import Dialogue
from app.domain.evaluation import Warned
from app.domain.untrusted.concealment import hides_text
from app.domain.untrusted.findings import Finding, Kind, finding
from app.domain.untrusted.folding import fold
from app.domain.untrusted.markup import breaks_out, imitates_roles
from app.domain.untrusted.naming import name_passage
from app.domain.untrusted.payloads import payloads
from app.domain.untrusted.verdicts import forges_verdict, inverts_scale
from app.domain.untrusted.wording import suspicious_passage

CODE = "suspected-injection"
MOST_RECENT = 4096
BACKWARDS = 4.0
"""What a text must score that is read from its end: ordinary words turned around look odd, and odd is suspicious."""

WORDS = (
    "満点|最高|評価|採点|自然さ|関連性|無視|만점|점수|점을|평가|채점|자연스러움|관련성|무시"
    "|score|marks|rating|aspect|criteri|ignore|naturalness|relevance|rubric"
)


Found = dict[Kind, tuple[str, ...]]
"""What is suspected, and by what it was told: names of what the text speaks of, or none."""


def read_plainly(folded: str, aspects: Sequence[str], above: float = 0.0) -> Found:
    """What a folded text says outright: words for the judge that score `above`, verdicts and markup."""
    found: Found = {}
    passage = suspicious_passage(folded, above)
    if passage is not None:
        kind, seen = name_passage(passage)
        found[kind] = seen
    if forges_verdict(folded, aspects):
        found[Kind.FORGED_VERDICT] = ()
    if inverts_scale(folded):
        found[Kind.SCALE_REDEFINITION] = ("a redefined scale",)
    suspicious = bool(found)
    if imitates_roles(folded, suspicious=suspicious):
        found[Kind.ROLE_MARKUP] = ()
    if breaks_out(folded, suspicious=suspicious):
        found[Kind.BOUNDARY_BREAKOUT] = ()
    return found


@cache
def backward_words() -> re.Pattern[str]:
    """Words about scoring, written backwards: without one of them a text need not be read in that direction."""
    return re.compile(WORDS[::-1])


def reads_backwards(folded: str, aspects: Sequence[str]) -> bool:
    """Whether a folded text speaks to its judge or forges a verdict when read from its end."""
    if not backward_words().search(folded):
        return False
    backwards = folded[::-1]
    return suspicious_passage(backwards, BACKWARDS) is not None or forges_verdict(backwards, aspects)


class Recent(OrderedDict[bytes, tuple[Finding, ...]]):
    """What the last texts raised, by their digests: contexts and speakers come again and again, and no text is kept.

    For threads as well: each step is atomic, and what two of them do at once is at worst done twice.
    """

    def remember(self, key: bytes, findings: tuple[Finding, ...]) -> None:
        """Keeps it, for as long as it is among the last."""
        self[key] = findings
        while len(self) > MOST_RECENT:
            self.popitem(last=False)


@cache
def recent() -> Recent:
    """This process's."""
    return Recent()


def recall_findings(text: str, aspects: tuple[str, ...]) -> tuple[Finding, ...]:
    """The suspicions that `text` raises, in the order of `Kind`; looked for once in a while only."""
    hashed = begin_key(aspects).copy()
    hashed.update(text.encode("utf-8", "surrogatepass"))
    key = hashed.digest()
    known = recent().get(key)
    if known is None:
        found = find_kinds(text, fold_names(aspects))
        known = tuple(finding(kind, found[kind]) for kind in Kind if kind in found)
        recent().remember(key, known)
    return known


@lru_cache(maxsize=64)
def begin_key(aspects: tuple[str, ...]) -> blake2b:
    """What the keys of all texts begin with that are looked at with these names. To be copied, not to be added to."""
    # With their lengths, so that no text can pass for another one with other aspects.
    lengths = ",".join(str(len(aspect)) for aspect in aspects)
    return blake2b("\0".join((lengths, *aspects, "")).encode("utf-8", "surrogatepass"), digest_size=16)


@lru_cache(maxsize=64)
def fold_names(aspects: tuple[str, ...]) -> tuple[str, ...]:
    """A rubric's names of aspects, folded: the same for every text that is judged by it."""
    return tuple(fold(aspect) for aspect in aspects if aspect)


def find_kinds(text: str, aspects: Sequence[str], above: float = 0.0) -> Found:
    """Every kind suspected of `text`: as it stands, backwards, and in what it carries encoded.

    `above`: what words for the judge must score; less than 0 finds more of them.
    """
    folded = fold(text)
    found = read_plainly(folded, aspects, above)
    if hides_text(text):
        found[Kind.HIDDEN_TEXT] = ()
    if reads_backwards(folded, aspects):
        found[Kind.REVERSED_TEXT] = ()
    if any(read_plainly(fold(payload), aspects) for payload in payloads(text)):
        found[Kind.ENCODED_PAYLOAD] = ()
    return found


def inspect_text(text: str, *, aspects: Sequence[str] = ()) -> list[Finding]:
    """The suspicions that one text raises, each kind once, in the order of `Kind`; empty where there is none.

    `aspects` are names of the aspects of the rubric in force, as a forged verdict would use them. Takes any string,
    never raises, and takes time linear in its length.
    """
    return list(recall_findings(text, tuple(aspects)))


def inspect_dialogue(
    dialogue: Dialogue,
    *,
    translation: Dialogue | None = None,
    aspects: Sequence[str] = (),
    checkpoint: Callable[[], None] = lambda: None,
) -> tuple[Warned, ...]:
    """One warning per place and kind: speakers and texts of the context, the response, and their translation.

    `where` is `response`, `context/<index>/text` or `context/<index>/speaker`, after `translation/` where it is the
    translation that looks like an attack. What the translation left as it was is looked at once. `checkpoint` is called
    before each text, and may raise to end the work.
    """
    warned = [*inspect_parts(dialogue, aspects, checkpoint)]
    if translation is not None:
        known = set(texts_of(dialogue).values())
        warned += inspect_parts(translation, aspects, checkpoint, prefix="translation/", known=known)
    return tuple(warned)


def texts_of(dialogue: Dialogue) -> dict[str, str]:
    """Each text of a dialogue by its place, in reading order."""
    places: dict[str, str] = {}
    for index, utterance in enumerate(dialogue.context):
        places[f"context/{index}/speaker"] = utterance.speaker
        places[f"context/{index}/text"] = utterance.text
    places["response"] = dialogue.response
    return places


def inspect_parts(
    dialogue: Dialogue,
    aspects: Sequence[str],
    checkpoint: Callable[[], None],
    *,
    prefix: str = "",
    known: set[str] | None = None,
) -> list[Warned]:
    """The warnings of one dialogue; texts in `known` are passed over, and equal texts are read once."""
    names = tuple(aspects)
    findings: dict[str, tuple[Finding, ...]] = {}
    warned: list[Warned] = []
    for where, text in texts_of(dialogue).items():
        if known is not None and text in known:
            continue
        if text not in findings:
            checkpoint()
            findings[text] = recall_findings(text, names)
        warned += [Warned(code=CODE, where=prefix + where, detail=found.detail) for found in findings[text]]
    return warned
