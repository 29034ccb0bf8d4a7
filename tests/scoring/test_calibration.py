"""The calibration set and the demo: what they hold, and that broken data are refused at their line."""

import json
import re
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from saiten_server.cli.demo import load_demo
from saiten_server.core.evaluation import EvaluationRequest
from saiten_server.scoring.relevance import CalibrationPair, CalibrationSet, load_calibration

LANGUAGES = ("ja", "ko", "en")
SCRIPTS = {"ja": r"[\u3041-\u30fe]", "ko": r"[\uac00-\ud7a3]", "en": r"[A-Za-z]"}
FOREIGN = {"ja": r"[\uac00-\ud7a3]", "ko": r"[\u3041-\u30fe]", "en": r"[^\x00-\x7f]"}
README = Path(__file__).parents[2] / "app" / "scoring" / "calibration" / "README.md"
LINE = {"id": "ja-001", "kind": "generic", "last_utterance": "雨だね。", "response": "そうだね。"}


def load(language: str) -> CalibrationSet:
    found = load_calibration(language)
    assert found is not None
    return found


def all_texts(language: str) -> list[str]:
    return [text for pair in load(language).texts for text in pair]


def bigrams(text: str) -> frozenset[str]:
    return frozenset(first + second for first, second in pairwise(f"^{text}$"))


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / len(left | right)


def near_duplicates(texts: list[str]) -> list[tuple[str, str]]:
    counted = [(text, bigrams(text)) for text in texts]
    return [(a[0], b[0]) for a, b in combinations(counted, 2) if jaccard(a[1], b[1]) >= 0.8]


def write_lines(folder: Path, *lines: str) -> Path:
    (folder / "ja.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def as_line(**changes: object) -> str:
    return json.dumps(LINE | changes, ensure_ascii=False)


@pytest.mark.parametrize("language", LANGUAGES)
class TestShippedSet:
    def test_is_large_enough_for_a_mean(self, language: str) -> None:
        found = load(language)
        assert found.language == language
        assert len(found.pairs) >= 100

    def test_ids_are_unique_and_name_the_language(self, language: str) -> None:
        ids = [pair.id for pair in load(language).pairs]
        assert len(set(ids)) == len(ids)
        assert all(re.fullmatch(rf"{language}-\d{{3}}", found) for found in ids)

    def test_every_text_is_written_in_the_language(self, language: str) -> None:
        for text in all_texts(language):
            assert re.search(SCRIPTS[language], text), text
            assert not re.search(FOREIGN[language], text), text

    def test_no_text_is_there_twice_or_nearly(self, language: str) -> None:
        assert near_duplicates(all_texts(language)) == []

    def test_mixture_is_that_of_the_readme(self, language: str) -> None:
        kinds = Counter(pair.kind for pair in load(language).pairs)
        figures = [kinds.total(), kinds["specific"], kinds["generic"], kinds["off-topic"]]
        assert f"| `{language}` | {' | '.join(map(str, figures))} |" in README.read_text(encoding="utf-8")
        shares = [kinds[kind] / kinds.total() for kind in ("specific", "generic", "off-topic")]
        assert shares == pytest.approx([0.75, 0.15, 0.10], abs=0.02)


def test_near_duplicate_measure_catches_a_filled_template() -> None:
    # Twelve characters with both borders are 13 bigrams. 雨 for 雪 changes two: 11 stay of 11 + 2 + 2.
    assert jaccard(bigrams("明日は雨が降るそうです。"), bigrams("明日は雪が降るそうです。")) == pytest.approx(11 / 15)
    # Twenty are 21 bigrams, 19 of 23 stay: 0.83.
    template = "駅前に新しい{}屋ができたと聞きましたよ。"
    assert len(near_duplicates([template.format("靴"), template.format("肉")])) == 1


def test_korean_set_holds_diary_entries_for_comments() -> None:
    diaries = [pair for pair in load("ko").pairs if re.search(r"다\.", pair.last_utterance)]
    assert len(diaries) >= 30


@pytest.mark.parametrize("language", ["fr", "xx", "JA", "", "jpn", "../demo/dialogues", "ja\n"])
def test_language_without_a_set_gives_none(language: str) -> None:
    assert load_calibration(language) is None


class TestDigest:
    pair = CalibrationPair.model_validate(LINE)
    other = CalibrationPair(id="ja-002", kind="specific", last_utterance="暑いね。", response="三十六度だって。")

    def digest_of(self, *pairs: CalibrationPair, language: str = "ja") -> str:
        return CalibrationSet(language=language, pairs=pairs).digest

    @pytest.mark.parametrize("field", ["last_utterance", "response"])
    def test_changes_with_one_character(self, field: str) -> None:
        changed = CalibrationPair.model_validate(LINE | {field: LINE[field][:-1] + "！"})
        assert self.digest_of(changed, self.other) != self.digest_of(self.pair, self.other)

    def test_changes_with_the_language_and_where_the_texts_swap(self) -> None:
        swapped = CalibrationPair.model_validate(
            LINE | {"last_utterance": LINE["response"], "response": LINE["last_utterance"]}
        )
        digests = [self.digest_of(self.pair), self.digest_of(self.pair, language="ko"), self.digest_of(swapped)]
        assert len(set(digests)) == 3

    def test_stays_where_the_mean_stays(self) -> None:
        renamed = CalibrationPair.model_validate(LINE | {"id": "ja-900", "kind": "specific"})
        assert self.digest_of(self.other, renamed) == self.digest_of(self.pair, self.other)

    def test_stays_where_only_the_white_space_of_the_file_changes(self, tmp_path: Path) -> None:
        found = load_calibration("ja", write_lines(tmp_path, json.dumps(LINE, separators=(" , ", " : "))))
        assert found is not None
        assert found.digest == self.digest_of(self.pair)


BROKEN = {
    "empty line": ("", "the document is not valid JSON: Expecting value"),
    "cut off": (as_line()[:-3], "the document is not valid JSON: Unterminated string"),
    "array": ("[]", "an object is needed, not list"),
    "not a number": ('{"id": NaN}', "NaN is not a JSON number"),
    "name twice": ('{"id": "a", "id": "b"}', "an object holds the same key twice"),
    "unknown field": (as_line(note="?"), "/note: "),
    "missing field": ('{"id": "ja-002"}', "/kind: "),
    "unknown kind": (as_line(kind="odd"), "/kind: "),
    "blank text": (as_line(response=" "), "/response: is blank"),
    "control character": (as_line(response="a\x07"), "/response: holds the control character U+0007"),
    "same id": (as_line(response="ほんとだ。"), "the id ja-001 is also on an earlier line"),
    "same pair": (as_line(id="ja-002"), "the same pair is also on an earlier line"),
}


class TestBrokenData:
    @pytest.mark.parametrize(("line", "reason"), BROKEN.values(), ids=BROKEN.keys())
    def test_is_refused_at_its_line(self, tmp_path: Path, line: str, reason: str) -> None:
        with pytest.raises(ValueError, match=rf"^ja\.jsonl, line 2: {re.escape(reason)}"):
            load_calibration("ja", write_lines(tmp_path, as_line(), line))

    def test_bytes_that_are_not_utf8_are_refused_at_their_line(self, tmp_path: Path) -> None:
        (tmp_path / "ja.jsonl").write_bytes(as_line().encode() + b"\n\xff\n")
        with pytest.raises(ValueError, match=r"^ja\.jsonl, line 2: the document is not UTF-8"):
            load_calibration("ja", tmp_path)

    def test_an_empty_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "ja.jsonl").write_bytes(b"")
        with pytest.raises(ValueError, match=r"^ja\.jsonl, line 1: "):
            load_calibration("ja", tmp_path)

    def test_line_separator_inside_a_text_does_not_part_lines(self, tmp_path: Path) -> None:
        found = load_calibration("ja", write_lines(tmp_path, as_line(response="そう\u2028だね。")))
        assert found is not None
        assert found.texts == [("雨だね。", "そう\u2028だね。")]

    def test_demo_body_that_is_no_request_is_refused_at_its_line(self, tmp_path: Path) -> None:
        (tmp_path / "dialogues.jsonl").write_text('{"context": [], "response": "はい。"}\n', encoding="utf-8")
        with pytest.raises(ValueError, match=r"^dialogues\.jsonl, line 1: /context: "):
            load_demo(tmp_path)


class TestDemo:
    def requests(self) -> list[EvaluationRequest]:
        return [EvaluationRequest.model_validate(body) for body in load_demo()]

    def test_shows_each_rubric_with_three_systems_each_on_the_same_dialogues(self) -> None:
        seen = Counter((request.rubric, request.metadata["system"]) for request in self.requests())
        assert seen == {("ja-dialogue", f"bot-{name}"): 4 for name in "abc"} | {
            (rubric, f"bot-{name}"): 3 for rubric in ("ko-comment", "ko-dialogue") for name in "abc"
        }

    def test_candidates_of_one_dialogue_share_its_context(self) -> None:
        contexts: dict[str, set[tuple[str, ...]]] = {}
        for request in self.requests():
            texts = tuple(utterance.text for utterance in request.context)
            contexts.setdefault(request.metadata["dialogue"], set()).add(texts)
        assert sorted(contexts) == ["ja-1", "ja-2", "ja-3", "ja-4", *(f"ko-{number}" for number in range(1, 7))]
        assert {len(found) for found in contexts.values()} == {1}

    def test_every_text_is_written_in_the_language_of_its_rubric(self) -> None:
        for request in self.requests():
            for text in (request.response, *(utterance.text for utterance in request.context)):
                assert re.search(SCRIPTS[request.rubric[:2]], text), text

    def test_responses_differ(self) -> None:
        assert near_duplicates([request.response for request in self.requests()]) == []
