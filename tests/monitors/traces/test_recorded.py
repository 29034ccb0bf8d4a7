"""What real libraries sent (`scripts/record_spans.py`) is read as the dialogue that was had, each turn once."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from saiten_server.monitors.traces.assembling import assemble
from saiten_server.monitors.traces.limits import DEFAULT_LIMITS, Signal
from saiten_server.monitors.traces.reading import SpanReader
from saiten_server.monitors.traces.service import KnownTexts
from saiten_server.monitors.traces.values import SpanRow, StoredSpan
from saiten_server.monitors.traces.wire import decode_signal
from scripts.record_spans import DIALOGUE, SESSION
from tests.support.spans import NOON, RULES

FOLDER = Path(__file__).parents[2] / "data" / "spans"
LIBRARIES = sorted({path.stem for path in FOLDER.iterdir()})


def read_rows(library: str) -> tuple[list[SpanRow], set[str]]:
    """The rows of all that a library sent, and the conversations that its spans name."""
    rows, names = [], set[str]()
    for path in sorted(FOLDER.glob(f"{library}.*")):
        signal = cast(Signal, path.suffix[1:])
        found = decode_signal(path.read_bytes(), signal, DEFAULT_LIMITS, is_json=False)
        assert not found.rejected
        read = SpanReader("team", RULES, KnownTexts(), lambda text, _: text).read(found.spans)
        assert not read.unread
        rows += read.rows
        names |= {*read.named.values(), *(row.conversation for row in read.rows if row.conversation)}
    return rows, names


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_turn_once(library: str) -> None:
    rows, names = read_rows(library)
    assert names == {SESSION}
    found = assemble([StoredSpan(row.key, row.said, NOON) for row in rows])
    assert [turn.text for turn in found.turns] == [text for turn in DIALOGUE for text in turn]
    assert [turn.role for turn in found.turns] == ["user", "system"] * len(DIALOGUE)
    answers = [turn for turn in found.turns if turn.role == "system"]
    assert {(turn.system, turn.build) for turn in answers} == {("yoyaku-bot", "1.4.0")}
    assert found.errors == found.tool_calls == 0


def test_all_libraries_are_recorded() -> None:
    assert [
        *("langchain", "langfuse", "mlflow", "openai-v2", "openai-v2-events", "openinference"),
        *("traceloop", "traceloop-sdk"),
    ] == LIBRARIES
