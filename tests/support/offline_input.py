"""Conversations and responses as rows of files that are scored offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PLACES = ("山", "川", "海", "森", "湖", "島", "谷")


def make_conversation(number: int, *, turns: int = 4) -> dict[str, Any]:
    """A conversation whose turns differ, and that differs from those of other numbers."""
    said = []
    for turn in range(turns // 2):
        place, count = PLACES[(number + turn) % len(PLACES)], number + 3 * turn
        said += [
            {"speaker": "客", "role": "user", "text": f"{turn + 1}日目は{place}で写真を{count}枚撮りました。"},
            {"speaker": "係", "role": "system", "text": f"{place}の写真を{count}枚も撮ったのですか。すてきですね。"},
        ]
    return {"id": f"c{number}", "turns": said, "metadata": {"system": f"bot-{number % 2}"}}


def make_response(number: int) -> dict[str, Any]:
    place = PLACES[number % len(PLACES)]
    return {
        "id": f"r{number}",
        "context": [{"speaker": "客", "text": f"{place}に{number}回行きました。"}],
        "response": f"{place}はいいですね。",
        "metadata": {"system": "bot"},
    }


def write_parquet(path: Path, rows: list[dict[str, Any]], *, group: int = 20) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=group)
    return path


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path
