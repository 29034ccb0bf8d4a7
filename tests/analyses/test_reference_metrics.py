"""Each item's figures: which texts they are of, the best over references, and a reason for every null."""

import math
from collections.abc import Mapping, Sequence

import pytest

from saiten_server.analyses.reference_metrics import MetricItem, MetricTools, choose_best, measure_items
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.validation import validate
from saiten_server.providers.ports import EncoderUnavailable, Likelihood, MetricUnavailable, Passage, Rouge, Similarity
from tests.support.fake_encoder import FakeEncoder, compare_bigrams
from tests.support.faults import words


class SplitWords:
    identity = "split"

    def count(self, text: str) -> int:
        return len(text.split())


class FirstLetters:
    """1 where a reference begins as the response does; refuses the reference `?`."""

    identity = "letters"

    def compare(self, references: Sequence[str], response: str) -> Rouge:
        if references == ("?",):
            raise MetricUnavailable(words("no words"))
        return Rouge(float(any(text[0] == response[0] for text in references)), 0.25, 0.5)


class FakeModel:
    """ln of the number of the passage's characters, so that a perplexity tells what was read. `cut` is the longest
    question that is read whole; a response `!` breaks it, and `~` has no likelihood to speak of."""

    def __init__(self, cut: int = 99) -> None:
        self.cut = cut
        self.passages: list[Passage] = []

    async def identify(self) -> str:
        return "fake-lm"

    async def read(self, passage: Passage) -> Likelihood:
        self.passages.append(passage)
        if passage.response == "!":
            raise MetricUnavailable(words("broke on this text"))
        if passage.response == "~":
            return Likelihood(500.0, 1, truncated=False)
        question = passage.question or ""
        return Likelihood(math.log(len(passage.response + question)), 1, truncated=len(question) > self.cut)

    async def close(self) -> None:
        return


def items(*bodies: Mapping[str, object]) -> list[MetricItem]:
    return [validate(MetricItem, body, DEFAULT_LIMITS) for body in bodies]


def tools(**given: object) -> MetricTools:
    settings = {
        "words": SplitWords(),
        "overlap": FirstLetters(),
        "encoder": FakeEncoder(),
        "model": FakeModel(),
        **given,
    }
    return MetricTools("ja", **settings)  # type: ignore[arg-type]


async def test_figures_are_of_the_right_texts() -> None:
    model = FakeModel()
    [one, other] = await measure_items(
        items(
            {"system": "s", "item": "i", "question": "qq", "response": "a b", "reference": ["a c", "a b c"]},
            {"context": [{"speaker": "A", "text": "x"}, {"speaker": "B", "text": "yyy"}], "response": "b"},
        ),
        tools(model=model),
        seed=0,
    )
    assert (one.position, one.system, one.item, one.len) == (1, "s", "i", 2)
    assert (one.rouge1, one.rouge2, one.rougeL) == (1.0, 0.25, 0.5)
    assert one.bertscore == max(compare_bigrams("a c", "a b"), compare_bigrams("a b c", "a b")) == pytest.approx(2 / 3)
    # Three characters alone; two of its question; the five of the other's `x`, newline, `yyy`.
    assert (one.perplexity_a, one.perplexity_qa, one.perplexity_rqa) == pytest.approx((3, 5, 8))
    assert (other.perplexity_a, other.perplexity_qa, other.perplexity_rqa) == pytest.approx((1, 6, 3))
    assert Passage("b", "x\nyyy") in model.passages
    assert one.unavailable == {}
    assert other.unavailable == dict.fromkeys(("rouge1", "rouge2", "rougeL", "bertscore"), "the item has no reference")


async def test_a_random_question_is_never_the_own_one_of_another_system() -> None:
    bodies = [{"system": s, "question": q, "response": "r"} for s in "abcd" for q in ("q", "qq", "qqq")]
    for seed in range(20):
        found = await measure_items(items(*bodies), tools(), seed=seed)
        lengths = [(one.perplexity_qa, one.perplexity_rqa) for one in found]
        assert all(own != other for own, other in lengths)
        # All systems are read after the same other question.
        assert len(set(lengths)) == 3


async def test_what_is_measured_beside_an_item_changes_only_the_random_question() -> None:
    bodies = [{"question": "q" * n, "response": "r" * n, "reference": "r q"} for n in range(1, 100)]
    together = await measure_items(items(*bodies), tools(), seed=0)
    for n in (0, 63, 64, 98):
        [alone] = await measure_items(items(bodies[n]), tools(), seed=0)
        assert alone.perplexity_rqa is None
        assert alone.unavailable == {"perplexity_rqa": "no other item has another question"}
        differing: dict[str, object] = {"position": 0, "perplexity_rqa": None, "unavailable": {}}
        assert alone.model_copy(update=differing) == together[n].model_copy(update=differing)


async def test_every_null_has_its_reason() -> None:
    missing = {"overlap": "no rouge", "encoder": "no encoder", "model": "no model"}
    [one] = await measure_items(items({"response": "a", "reference": "a"}), tools(**missing), seed=0)
    assert one.unavailable == {
        **dict.fromkeys(("rouge1", "rouge2", "rougeL"), "no rouge"),
        "bertscore": "no encoder",
        **dict.fromkeys(("perplexity_a", "perplexity_qa", "perplexity_rqa"), "no model"),
    }
    broken = tools(encoder=FakeEncoder(unavailable="still loading"))
    [one, other, third] = await measure_items(
        items({"response": "!", "reference": "?", "question": "q"}, {"response": "~"}, {"response": "a"}),
        broken,
        seed=0,
    )
    assert one.unavailable == {
        **dict.fromkeys(("rouge1", "rouge2", "rougeL"), "no words"),
        "bertscore": "still loading",
        "perplexity_a": "broke on this text",
        "perplexity_qa": "broke on this text",
        "perplexity_rqa": "no other item has another question",
    }
    assert "too unlikely" in other.unavailable["perplexity_a"]
    assert other.unavailable["perplexity_qa"] == "the item has neither a context nor a question"
    assert third.perplexity_a == pytest.approx(1.0)
    for found in (one, other, third):
        nulls = {name for name, value in found.model_dump().items() if value is None} - {"system", "item"}
        assert nulls == set(found.unavailable)


async def test_figures_of_texts_that_were_cut_are_named() -> None:
    cutting = tools(encoder=FakeEncoder(max_characters=3), model=FakeModel(cut=2))
    [one, other] = await measure_items(
        items({"question": "qqq", "response": "abcd", "reference": "ab"}, {"question": "q", "response": "a"}),
        cutting,
        seed=0,
    )
    assert one.truncated == ("bertscore", "perplexity_qa")
    assert other.truncated == ("perplexity_rqa",)


def test_the_best_of_similarities_that_are_no_numbers_is_not_known() -> None:
    with pytest.raises(EncoderUnavailable, match="no finite similarity"):
        choose_best([Similarity(0.5, False, 0.0), Similarity(math.nan, False, 0.0)])


async def test_tells_what_measured_and_when_an_item_is_done() -> None:
    done: list[None] = []
    every = tools()
    found = await measure_items(
        items({"response": "a", "reference": "a"}, {"response": "b"}), every, seed=0, done=lambda: done.append(None)
    )
    assert len(done) == 2
    assert await every.identify(found) == {
        "len": "split",
        "rouge": "letters",
        "bertscore": "fake-ja_L0_no-idf_version=0",
        "perplexity": "fake-lm",
    }
    # Without a reference nothing was compared, and the encoder need not load to say its name.
    unused = tools(encoder=FakeEncoder(unavailable="would load"), model="none")
    assert await unused.identify(await measure_items(items({"response": "a"}), unused, seed=0)) == {"len": "split"}
