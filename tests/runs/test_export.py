"""Results as files: complete, in order, page by page, and harmless in a spreadsheet."""

import csv
import io
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import arro3.io
import pytest
from arro3.core import DataType

from saiten.core.spreadsheet import defuse, is_own_table, restore
from saiten.core.strict_json import parse_strict_json
from saiten_server.core.batch import BatchOptions, Candidate, Entry, Failure
from saiten_server.core.dialogue import Utterance
from saiten_server.core.evaluation import (
    AspectResult,
    JudgeOptions,
    PathResult,
    Paths,
    RelevanceOptions,
    RelevanceResult,
    Unrated,
    Usage,
    Warned,
)
from saiten_server.core.reliability import NOT_VALIDATED, UNVALIDATED, Reliability
from saiten_server.runs.export import stream_csv, stream_ndjson, stream_parquet
from saiten_server.runs.result import Result
from tests.support.fake_rubrics import small_rubric
from tests.support.records import make_record

RUBRIC = small_rubric(composites=[{"id": "both", "kind": "mean", "of": ["warmth", "clarity"]}])
PLAIN = BatchOptions(rubric=RUBRIC.id, relevance=None)

WARM = AspectResult(rating=-1, scale=(-1, 1), label="cold", samples=(-1, 0), mean=-0.5, sd=0.5, blended=2.25)
UNCLEAR = AspectResult(
    rating=None,
    scale=(1, 3),
    label=None,
    samples=(None, None),
    mean=None,
    sd=None,
    unrated=Unrated(reason="truncated", detail="cut off"),
)


def place(position: int = 0, item: str = "a", candidate: int | None = None) -> Entry:
    return Entry(position=position, item=item, candidate=candidate)


def scored(entry: Entry | None = None, **changes: Any) -> Result:
    values: dict[str, Any] = {
        "aspects": {"warmth": WARM, "clarity": UNCLEAR},
        "composites": {"both": None},
        "status": "partial",
        "usage": Usage(judge_calls=2, prompt_tokens=800, completion_tokens=40, cost_usd=0.0125),
        "relevance": RelevanceResult(score=0.75, baseline=0.5, baseline_source="number", weight=9, encoder="e"),
    }
    return Result("ev_1", entry=entry or place(), evaluation=make_record(**values | changes).evaluation)


def failed(entry: Entry | None = None) -> Result:
    failure = Failure(code="judge-refused-request", detail="=cmd, the judge would not")
    return Result("ev_1", entry=entry or place(), failure=failure)


async def paged(*pages: Sequence[Result]) -> AsyncIterator[Sequence[Result]]:
    for page in pages:
        yield page


async def read_table(results: Sequence[Result], options: BatchOptions = PLAIN) -> list[dict[str, str]]:
    pieces = [piece async for piece in stream_csv(paged(results), RUBRIC, options)]
    return list(csv.DictReader(io.StringIO(b"".join(pieces).decode(), newline="")))


async def test_a_line_holds_what_the_result_holds():
    results = [scored(place(0, "甲", 3)), failed(place(1, "乙\u2028\"'"))]
    (piece,) = [piece async for piece in stream_ndjson(paged(results))]
    lines = piece.decode().split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == [json.loads(json.dumps(result.line())) for result in results]
    assert list(json.loads(lines[0]))[:3] == ["position", "item", "candidate"]
    assert "甲" in lines[0]


async def test_the_order_of_the_pages_is_kept_and_one_is_held_at_a_time():
    taken: list[int] = []

    async def pages() -> AsyncIterator[Sequence[Result]]:
        for start in (0, 2, 4):
            taken.append(start)
            yield [scored(place(start)), failed(place(start + 1))]

    positions = []
    async for piece in stream_ndjson(pages()):
        positions += [json.loads(line)["position"] for line in piece.splitlines()]
        assert len(taken) == len(positions) // 2
    assert positions == [0, 1, 2, 3, 4, 5]


async def test_nothing_gives_no_line_but_a_header():
    assert [piece async for piece in stream_ndjson(paged())] == []
    (header,) = [piece async for piece in stream_csv(paged(), RUBRIC, PLAIN)]
    assert next(csv.reader([header.decode()])) == [
        *("item", "position", "candidate", "status", "warmth", "warmth.unrated", "clarity", "clarity.unrated", "both"),
        *("relevance.score", "warnings", "cached", "judge_calls", "prompt_tokens", "completion_tokens", "cost_usd"),
        *("evaluation", "signature", "failure.code", "failure.detail", "metadata", "reliability"),
        *("dialogue", "cluster", "batch_metadata"),
    ]


async def test_a_row_tells_the_evaluation():
    warnings = tuple(Warned(code=code, where="x", detail="…") for code in ("b", "a", "b"))
    (row,) = await read_table([scored(place(7, "甲", 2), warnings=warnings)])
    assert row == {
        "item": "甲",
        "position": "7",
        "candidate": "2",
        "status": "partial",
        "warmth": "-1",
        "warmth.unrated": "",
        "clarity": "",
        "clarity.unrated": "truncated",
        "both": "",
        "relevance.score": "0.75",
        "warnings": "b a",
        "cached": "false",
        "judge_calls": "2",
        "prompt_tokens": "800",
        "completion_tokens": "40",
        "cost_usd": "0.0125",
        "evaluation": "ev_1",
        "signature": "saiten:0|rubric:ja-dialogue@1",
        "failure.code": "",
        "failure.detail": "",
        "metadata": '{"system":"甲"}',
        "reliability": "",
        "dialogue": "",
        "cluster": "",
        "batch_metadata": "",
    }


async def test_a_row_ends_with_what_its_judge_was_found_to_be_worth():
    badge = Reliability(validated=True, detail="Spearman with humans, n = 60, 2026-11-21: warmth 0.74")
    marked = [scored(reliability=UNVALIDATED), scored(reliability=badge), failed()]
    rows = await read_table(marked)
    assert [list(row)[-4] for row in rows] == ["reliability"] * 3
    assert [row["reliability"] for row in rows] == [str(NOT_VALIDATED), badge.detail, ""]


async def test_a_row_and_a_line_name_the_dialogue_once():
    turn = Entry(position=1, item="b", candidate=None, dialogue="d-1", cluster="0f")
    evaluated = scored(turn)
    assert evaluated.evaluation is not None
    evaluated = replace(evaluated, evaluation=evaluated.evaluation.model_copy(update={"dialogue": "d-1"}))
    rows = await read_table([evaluated, failed(turn)])
    assert [(row["dialogue"], row["cluster"]) for row in rows] == [("d-1", "0f")] * 2
    lines = [line async for line in stream_ndjson(paged([evaluated, failed(turn)]))]
    for line in b"".join(lines).splitlines():
        told = parse_strict_json(line)  # which refuses a key that stands twice
        assert (told["dialogue"], told["cluster"]) == ("d-1", "0f")


async def test_a_failed_candidate_has_its_place_and_its_reason():
    (row,) = await read_table([failed(place(3, "c"))])
    told = {name: cell for name, cell in row.items() if cell}
    assert told == {
        "item": "c",
        "position": "3",
        "status": "failed",
        "failure.code": "judge-refused-request",
        "failure.detail": "'=cmd, the judge would not",
    }


async def test_samples_blends_and_paths_bring_columns_of_their_own():
    english = PathResult(
        aspects={"warmth": WARM.model_copy(update={"rating": 1}), "clarity": UNCLEAR},
        composites={},
        relevance=None,
        signature="s",
    )
    paths = Paths(source=english, english=english, difference={}, translation_sensitive=True)
    options = BatchOptions(
        rubric=RUBRIC.id,
        path="both",
        judge=JudgeOptions(samples=2),
        relevance=RelevanceOptions(aspects=("warmth",)),
    )
    first, second = await read_table([scored(paths=paths), failed()], options)
    assert list(first)[4:11] == [
        *("warmth", "warmth.mean", "warmth.blended", "warmth.english", "warmth.unrated"),
        *("clarity", "clarity.mean"),
    ]
    assert (first["warmth.mean"], first["warmth.blended"], first["warmth.english"]) == ("-0.5", "2.25", "1")
    assert first["translation_sensitive"] == "true"
    assert "clarity.blended" not in first
    assert (second["failure.code"], second["metadata"]) == ("judge-refused-request", "")


async def test_parquet_has_the_columns_of_csv_with_their_types_whatever_is_in_them():
    options = BatchOptions(rubric=RUBRIC.id, path="both", judge=JudgeOptions(samples=2))
    formula = scored(place(item="=1+1"), metadata={"note": "海"})
    kinds = []
    for pages in ([], [[failed()]], [[formula], [failed(place(1))]]):
        pieces = [piece async for piece in stream_parquet(paged(*pages), RUBRIC, options)]
        table = arro3.io.read_parquet(io.BytesIO(b"".join(pieces))).read_all()
        kinds.append({field.name: field.type for field in map(table.schema.field, table.column_names)})
    assert kinds[0] == kinds[1] == kinds[2]
    header = b"".join([piece async for piece in stream_csv(paged(), RUBRIC, options)]).decode()
    assert [*kinds[0]] == next(csv.reader([header]))
    chosen = ("item", "position", "warmth", "warmth.mean", "both", "cached", "cost_usd", "metadata")
    text, whole, real = DataType.utf8(), DataType.int64(), DataType.float64()
    assert [kinds[0][name] for name in chosen] == [text, whole, whole, real, real, DataType.bool(), real, text]
    first, second = table.to_struct_array().to_pylist()
    assert (first["item"], first["warmth.mean"], first["cached"], first["metadata"]) == (
        *("=1+1", -0.5, False),
        '{"note":"海"}',
    )
    assert (second["position"], second["warmth"], second["failure.code"]) == (1, None, "judge-refused-request")


@pytest.mark.parametrize("options", [PLAIN, BatchOptions(rubric=RUBRIC.id, path="both")], ids=["plain", "both"])
async def test_every_row_has_every_column(options):
    pieces = [piece async for piece in stream_csv(paged([scored(), failed()]), RUBRIC, options)]
    rows = [*csv.reader(io.StringIO(b"".join(pieces).decode(), newline=""))]
    assert len({len(row) for row in rows}) == 1
    assert is_own_table(rows[0]), "what reads it gives its texts back as they were"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
async def test_no_text_begins_as_a_formula(start):
    item = f"{start}HYPERLINK(1)"
    assert defuse(item) == f"'{item}"
    results = [scored(place(item=item), signature=item, id=item), failed(place(item=item))]
    first, second = await read_table(results)
    assert first["item"] == second["item"] == first["signature"] == first["evaluation"] == f"'{item}"


@pytest.mark.parametrize(
    "before", [" ", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2060", "\u202e", "\u00ad", " \u200b\x1f\t "]
)
@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@A1", "＝1"])
def test_what_is_not_seen_hides_no_formula(before: str, start: str) -> None:
    assert defuse(before + start) == f"'{before}{start}"


@pytest.mark.parametrize("text", ["", " 甲=1", "a=1", "1-2", "甲", "'t was", "'"])
def test_other_texts_stay(text):
    assert defuse(text) == restore(text) == text


@pytest.mark.parametrize("text", ["=1", "'=1", "''=1", "' -1", "'\t", "'", "'a"])
def test_every_text_is_restored(text):
    assert restore(defuse(text)) == text


async def test_numbers_stay_numbers_and_texts_are_quoted():
    results = [scored(place(item='a;=1,"x"\r\nb'))]
    pieces = [piece async for piece in stream_csv(paged(results), RUBRIC, PLAIN)]
    line = pieces[1].decode()
    assert line.startswith('"a;=1,""x""\r\nb",0,"","partial",-1,')
    assert line.endswith("\r\n")


async def test_parquet_holds_no_more_of_long_texts_than_of_short_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    write = arro3.io.write_parquet

    def note_group(*args: Any, max_row_group_size: int, **options: Any) -> None:
        held.append(max_row_group_size)
        write(*args, max_row_group_size=max_row_group_size, **options)

    monkeypatch.setattr(arro3.io, "write_parquet", note_group)
    monkeypatch.setattr("saiten_server.runs.export.GROUP_BYTES", 1_000_000)
    context = (Utterance(speaker="A", text="あ"),)
    long = Candidate.model_construct(context=context, response="い" * 100_000)
    for asked in (None, long):
        pages = paged(*([replace(scored(place(at)), asked=asked)] for at in range(5)))
        pieces = [piece async for piece in stream_parquet(pages, RUBRIC, PLAIN, texts=True)]
        rows = arro3.io.read_parquet(io.BytesIO(b"".join(pieces))).read_all().to_struct_array().to_pylist()
        assert [row["response"] for row in rows] == [asked and asked.response] * 5
    assert held[0] > 500
    assert held[1] == 3
