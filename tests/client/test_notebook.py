"""What a notebook shows of answers: small tables, in which no text of a caller or a judge is anything but text."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from saiten.answers import RatingsAdded
from tests.support.both_clients import client_of
from tests.support.posted import make_item
from tests.support.serving import serving

HOSTILE = "<img src=https://evil.example/x onerror=alert(1)>\"'&"


class Cells(HTMLParser):
    """The texts of a page's cells, by row, and every tag and attribute."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag in {"tr", "caption"}:
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        row = self.rows[-1]
        row[-1:] = [(row[-1] if row else "") + data]


def show(answer: Any) -> Cells:
    shown = Cells(answer._repr_html_())
    assert shown.tags <= {"table", "caption", "tr", "th", "td"}
    assert shown.attributes == set()
    return shown


def test_a_long_table_is_cut() -> None:
    rows = {f"k{number}": "v" for number in range(50)}
    shown = show(RatingsAdded.model_validate({"added": 1, "replaced": 0, "more": rows}))
    assert ["k29", "v"] in shown.rows
    assert shown.rows[-1] == ["… and 20 more"]


async def test_evaluations_runs_and_gates_are_tables_of_escaped_text(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as service, client_of("blocking", str(service.base_url)) as client:
        given = make_item(0)
        evaluation = await client.evaluate(
            context=given["context"], response=given["response"], metadata={"note": HOSTILE}
        )
        runs = [await client.run([make_item(number) for number in range(8)], name=HOSTILE) for _ in range(2)]
        gate = await client.gate(baseline=runs[0].id, candidate=runs[1].id)

    overall = evaluation.aspects["overall"].model_copy(update={"mean": 3.0625, "scale": (1, 5), "reason": HOSTILE})
    changes = {"aspects": {"overall": overall}, "signature": "s" * 500, "composites": {HOSTILE: 0.0625}}
    rows = show(evaluation.model_copy(update=changes)).rows
    assert rows[0] == ["Evaluation"]
    place = rows.index(["aspects"])
    shown = dict(zip(rows[place + 1], rows[place + 2], strict=True))
    assert (shown[""], shown["mean"], shown["scale"], shown["reason"]) == ("overall", "3.063", "[1, 5]", HOSTILE)
    assert [["note", HOSTILE] in rows, [HOSTILE, "0.063"] in rows, ["signature", "s" * 199 + "…"] in rows] == [True] * 3

    rows = show(runs[0].asked).rows
    assert rows == show(runs[0].asked._asked).rows
    assert (rows[0], ["name", HOSTILE] in rows, ["aspects"] in rows) == (["Summary"], True, True)
    assert {"GateReport", "comparison.aspects"} <= {row[0] for row in show(gate).rows if row}
