"""What is sent with what: contexts, blocks, and bytes counted as the SDK sends them."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.providers.deepl.requests import (
    BLOCK_UTTERANCES,
    CONTEXT_BYTES,
    REQUEST_BYTES,
    REQUEST_TEXTS,
    TranslationPassage,
    keep_recent,
    measure_body,
    measure_text,
    pack_passages,
    plan_passages,
)


def talk(texts: list[str], response: str) -> Dialogue:
    context = tuple(Utterance.model_construct(speaker="A", text=text) for text in texts)
    return Dialogue.model_construct(context=context, response=response)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("abc", 3),
        ("雨だ", 12),  # 2 characters × 6 (\uXXXX)
        ("비", 6),
        ("😀", 12),  # a surrogate pair: 2 × 6
        ('"\\', 4),  # 2 characters × 2 (backslash and itself)
        ("a\nb", 4),  # 1 + 2 + 1
        ("\x7f", 6),
        ("é", 6),
    ],
)
def test_a_text_is_counted_with_its_escapes(text: str, size: int) -> None:
    assert measure_text(text) == size


def test_a_body_is_counted_to_the_byte() -> None:
    frame = '{"target_lang": "EN-US", "source_lang": "JA", "text": [], "show_billed_characters": true}'
    assert len(frame) == 89
    # 2 texts: quotes 2 × 2, characters 6 + 12, one ", "
    assert measure_body(["雨", "雪だ"], None, "JA") == 89 + 4 + 18 + 2
    # `, "context": ` is 13, its quotes 2, its characters 6 + 2 (a newline) + 6
    assert measure_body(["雨", "雪だ"], "雲\n風", "JA") == 89 + 24 + 13 + 2 + 14


def test_a_short_dialogue_is_one_request_whose_context_is_the_dialogue_context() -> None:
    passages = plan_passages(talk(["犬は好き？", "うん、好き。"], "私も。"), "JA")
    assert pack_passages(passages, "JA") == [passages]
    assert passages == [
        TranslationPassage("犬は好き？", "犬は好き？\nうん、好き。"),
        TranslationPassage("うん、好き。", "犬は好き？\nうん、好き。"),
        TranslationPassage("私も。", "犬は好き？\nうん、好き。"),
    ]


def test_every_text_comes_with_all_that_precedes_it_and_never_with_the_response() -> None:
    texts = [f"発話{number:02}" for number in range(25)]
    passages = plan_passages(talk(texts, "応答"), "JA")
    assert [passage.text for passage in passages] == [*texts, "応答"]
    for index, passage in enumerate(passages):
        lines = (passage.context or "").split("\n")
        assert set(texts[:index]) <= set(lines)
        assert "応答" not in lines
    # blocks 10 + 10 + 5, and the response rides with the last one
    assert [len(request) for request in pack_passages(passages, "JA")] == [10, 10, 6]


def test_a_dialogue_that_grows_leaves_its_finished_blocks_as_they_were() -> None:
    texts = [f"発話{number:02}" for number in range(25)]
    shorter = plan_passages(talk(texts[:23], "応答"), "JA")
    longer = plan_passages(talk(texts, "別の応答"), "JA")
    assert shorter[: 2 * BLOCK_UTTERANCES] == longer[: 2 * BLOCK_UTTERANCES]


def test_another_response_changes_nothing_but_itself() -> None:
    one, other = (plan_passages(talk(["今日は雨だね。"] * 12, response), "JA") for response in ("そうだね。", "傘は？"))
    assert one[:-1] == other[:-1]
    assert one[-1].context == other[-1].context


def test_the_oldest_utterances_are_dropped_first() -> None:
    # "二" 6, a newline 2, "三" 6: two fit into 14, not into 13
    assert keep_recent(["一", "二", "三"], 14) == "二\n三"
    assert keep_recent(["一", "二", "三"], 13) == "三"


def test_of_an_utterance_that_is_too_long_its_end_is_kept() -> None:
    assert keep_recent(["一", "二三四"], 13) == "三四"
    assert keep_recent(["二三四"], 5) is None
    assert keep_recent(["二三四"], -1) is None


def test_the_longest_context_has_its_limit() -> None:
    # 4,000 × 6 = 24,000 of 24,576; the next would need another 24,002
    passages = plan_passages(talk(["あ" * 4000, "い" * 4000], "う"), "JA")
    assert {passage.context for passage in passages} == {"い" * 4000}
    assert measure_text("い" * 4000) <= CONTEXT_BYTES


def test_beside_the_longest_text_the_context_makes_room() -> None:
    # 8,000 × 12 = 96,000; the frame 89 + 2 + 13 + 2; 98,304 − 96,106 = 2,198 are left: 366 characters of 6
    long = plan_passages(talk(["あ" * 1000], "😀" * 8000), "JA")[-1]
    assert long.context == "あ" * 366
    assert 98_304 - 6 < measure_body([long.text], long.context, "JA") <= 98_304


def test_a_text_over_the_limit_goes_alone_and_bare() -> None:
    passages = plan_passages(talk(["はい"], "😀" * 9000), "JA")
    requests = pack_passages(passages, "JA")
    assert [[passage.context for passage in request] for request in requests] == [["はい"], [None]]


def test_fifty_texts_fill_a_request() -> None:
    requests = pack_passages([TranslationPassage(f"文{number}", "前") for number in range(101)], "JA")
    assert [len(request) for request in requests] == [50, 50, 1]


def test_a_request_is_filled_to_the_last_byte() -> None:
    # 98,304 − 89 (frame) − 8 (the first text "あ" with quotes) − 4 (", " and quotes) = 98,203
    exact = [TranslationPassage("あ", None), TranslationPassage("x" * 98_203, None)]
    assert [len(request) for request in pack_passages(exact, "JA")] == [2]
    assert measure_body(["あ", "x" * 98_203], None, "JA") == REQUEST_BYTES
    over = [TranslationPassage("あ", None), TranslationPassage("x" * 98_204, None)]
    assert [len(request) for request in pack_passages(over, "JA")] == [1, 1]


def test_a_list_is_split_where_its_bytes_are_used_up() -> None:
    # 89 + 16 × 6,002 + 15 × 2 = 96,151 fit; 89 + 17 × 6,002 + 16 × 2 = 102,155 do not
    requests = pack_passages([TranslationPassage("あ" * 1000, None)] * 30, "JA")
    assert [len(request) for request in requests] == [16, 14]


pieces = st.text(alphabet='あ비😀a"\n\\é', min_size=1, max_size=12)
texts = st.builds(lambda piece, times: piece * times, pieces, st.sampled_from([1, 3, 100, 660]))


@settings(max_examples=150, deadline=None)
@given(st.lists(texts, min_size=1, max_size=70), texts)
def test_no_request_is_over_a_limit_and_nothing_is_lost(utterances: list[str], response: str) -> None:
    passages = plan_passages(talk(utterances, response), "KO")
    requests = pack_passages(passages, "KO")
    assert [passage for request in requests for passage in request] == passages
    assert [passage.text for passage in passages] == [*utterances, response]
    for request in requests:
        assert len({passage.context for passage in request}) == 1
        assert len(request) <= REQUEST_TEXTS
        assert measure_body([passage.text for passage in request], request[0].context, "KO") <= REQUEST_BYTES
    for one, following in pairwise(requests):  # nothing is split that would have fitted
        same = one[0].context == following[0].context
        together = [passage.text for passage in [*one, following[0]]]
        assert not (same and len(one) < 50 and measure_body(together, one[0].context, "KO") <= REQUEST_BYTES)
