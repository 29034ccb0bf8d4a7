"""The form of `/try`: what a visitor filled in, as a request, and where a request's faults stand in the form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.domain.rubric import Rubric
from app.web.dashboard.forms import Form
from app.web.dashboard.texts import mark

ROWS = 3
"""Utterances that an empty form has room for."""

SPEAKERS = ("A", "B")
PATHS = ("source", "english", "both")

EXAMPLES: Mapping[str, tuple[Sequence[tuple[str, str]], str]] = {
    "ja": (
        (
            ("A", "最近、朝ごはんをちゃんと作るようにしてるんです。"),
            ("B", "えらいですね。どんなものを作ってるんですか？"),
            ("A", "味噌汁と卵焼きが多いかな。今日は卵焼きを焦がしちゃいましたけど。"),
        ),
        "焦げた卵焼きも香ばしくていいじゃないですか。味噌汁の具は何にしたんですか？",
    ),
    "ko": (
        (
            (
                "일기",
                "오늘은 동생이랑 처음으로 김밥을 말았다. 옆구리가 다 터졌지만 아버지가 세 줄이나 드셨다. "
                "내일도 또 만들기로 했다.",
            ),
        ),
        "옆구리 터진 김밥이 제일 맛있는 법이죠. 아버지께서 세 줄이나 드셨다니, 내일 김밥은 더 기대되네요!",
    ),
}
"""By language a dialogue context and a response, to try with."""

FIELDS = {
    "rubric": ("rubric", mark("Rubric")),
    "context": ("context", mark("Dialogue context")),
    "response": ("response", mark("Response")),
    "path": ("path", mark("Path")),
    "judge/samples": ("samples", mark("Samples")),
    "judge/explain": ("explain", mark("Reasons")),
}
"""A request's fields by their place in it: the id in the form, and the label."""


@dataclass(frozen=True)
class Fault:
    """What is wrong. `target` is the id of the field, empty where it is none's; `row` counts utterances from 1."""

    target: str
    label: str
    detail: str
    row: int | None = None


@dataclass(frozen=True)
class Draft:
    """What the form holds."""

    rubric: str = ""
    context: Sequence[tuple[str, str]] = ()
    response: str = ""
    path: str = "source"
    samples: str = "1"
    explain: bool = True

    def request(self) -> dict[str, Any]:
        """The request that the form asks for, as JSON. Utterances without a text are left out."""
        return {
            "rubric": self.rubric,
            "context": [{"speaker": speaker.strip(), "text": text} for speaker, text in self.context if text],
            "response": self.response,
            "path": self.path,
            "judge": {"samples": read_samples(self.samples), "explain": self.explain},
        }

    def fault(self, where: str, detail: str) -> Fault:
        """A fault of the request at its field of the form."""
        parts = where.strip("/").split("/")
        filled = [number for number, (_, text) in enumerate(self.context) if text]
        if parts[0] == "context" and len(parts) > 1 and parts[1].isdigit() and int(parts[1]) < len(filled):
            row = filled[int(parts[1])]
            name = "speaker" if parts[-1] == "speaker" else "text"
            return Fault(f"{name}-{row}", mark("Utterance"), detail, row + 1)
        target, label = FIELDS.get("/".join(parts), FIELDS.get(parts[0], ("", "")))
        return Fault(target, label, detail)

    def widen(self) -> Draft:
        """The same with room for one utterance more."""
        return replace(self, context=(*self.context, (self.next_speaker(), "")))

    def next_speaker(self) -> str:
        """Who would speak next: whoever spoke before the last one."""
        names = [speaker for speaker, _ in self.context]
        return names[-2] if len(names) > 1 else SPEAKERS[len(names) % 2]


def read_draft(form: Form, most_rows: int) -> Draft:
    """What was sent, and of a context that is too long one utterance too many, to be refused for it."""
    texts = [text.replace("\r", "\n") for text in form.all("text")]
    rows = zip(form.all("speaker")[: most_rows + 1], texts[: most_rows + 1], strict=False)
    return Draft(
        rubric=form.get("rubric"),
        context=tuple(rows),
        response=form.raw("response"),
        path=form.get("path", "source"),
        samples=form.get("samples", "1"),
        explain=form.get("explain") == "yes",
    )


def read_samples(text: str) -> int | str:
    """The number; the text itself where it is none, so that it is refused as any other."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else text


def start_draft(rubrics: Sequence[Rubric], rubric: str, example: str) -> Draft:
    """An empty form, or one with an example in that language and a rubric for it."""
    known = {each.id: each for each in rubrics}
    chosen = known.get(rubric) or known.get("ja-dialogue") or next(iter(rubrics), None)
    if example in EXAMPLES:
        if chosen is None or chosen.source_language != example:
            chosen = next((each for each in rubrics if each.source_language == example), chosen)
        context, response = EXAMPLES[example]
        return Draft(rubric=chosen.id if chosen else "", context=context, response=response)
    empty = tuple((SPEAKERS[number % 2], "") for number in range(ROWS))
    return Draft(rubric=chosen.id if chosen else "", context=empty)
