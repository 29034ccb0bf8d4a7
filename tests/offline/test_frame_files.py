"""Results as Parquet files, and the run that is read from them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saiten_server.core.errors import InvalidRequest
from saiten_server.offline.columns import list_columns
from saiten_server.offline.frame_files import ScoredRow, make_schema, make_table
from saiten_server.offline.frame_reading import read_run
from saiten_server.offline.opened_files import open_files
from saiten_server.runs.frame import COLUMNS, RunFrame
from tests.support.figures import place_figures
from tests.support.offline_rows import KINDS, entries_of, figures_of, make_rows, rubric_of, store

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def show(frame: RunFrame) -> dict[str, object]:
    """Everything in the frame by row, with NaN as a text, which is equal to itself."""
    columns = {name: str(getattr(frame, name).tolist()) for name in COLUMNS if name not in {"label", "fault"}}
    values = {str(key): str(column.tolist()) for key, column in frame.values.items() if not np.isnan(column).all()}
    ratings = {name: str(column.tolist()) for name, column in frame.ratings.items() if not np.isnan(column).all()}
    labels = [frame.labels[number] for number in frame.label]
    faults = [frame.faults[number] for number in frame.fault]
    return {**columns, "values": sorted(values.items()), "ratings": ratings, "labels": labels, "faults": faults}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("held", [1 << 26, 0])
def test_a_run_read_from_files_is_that_of_the_store(
    kind: str, held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saiten_server.offline.frame_reading.HELD_BYTES", held)
    rows = make_rows(kind)
    run = read_run(open_files(str(store(rows, kind, tmp_path))), rubric_of(kind))
    expected = place_figures(figures_of(rows), entries_of(rows))
    assert show(run.frame) == show(expected)
    assert run.repeated == 0
    assert run.signatures.total() == sum(row.record is not None for row in rows)


def test_rows_that_a_retry_wrote_twice_count_once(tmp_path: Path) -> None:
    rows = make_rows("candidates")
    store(rows, "candidates", tmp_path)
    store(rows[:30], "candidates", tmp_path / "again", files=2)
    run = read_run(open_files(str(tmp_path)), rubric_of("candidates"))
    assert (len(run.frame), run.repeated) == (60, 30)
    kept = np.sort(run.frame.items)
    once = read_run(open_files(str(store(rows, "candidates", tmp_path / "once"))), rubric_of("candidates"))
    assert np.array_equal(kept, np.sort(once.frame.items))


def test_equal_texts_of_two_items_are_two_results(tmp_path: Path) -> None:
    first = make_rows("responses", 1)[0]
    second = first._replace(entry=first.entry.model_copy(update={"item": "other"}))
    run = read_run(open_files(str(store([first, second], "responses", tmp_path, files=1))), rubric_of("responses"))
    assert len(run.frame) == 2


def test_a_table_has_the_declared_columns_whatever_it_holds() -> None:
    rubric = rubric_of("conversations")
    for texts in (False, True):
        names = [one.name for one in list_columns(rubric, texts=texts)]
        assert make_schema(rubric, texts=texts).names == names
        table = make_table(make_rows("conversations", 20), rubric, texts=texts)
        assert table.column_names == names
        assert table.schema.metadata.keys() == {b"saiten"}
        nulls = {one.name for one in table.schema if table.column(one.name).null_count}
        assert not nulls & {one.name for one in list_columns(rubric, texts=texts) if not one.nullable}
    assert make_table([], rubric).num_rows == 0
    said = make_table(make_rows("responses", 3), rubric_of("responses"), texts=True).to_pylist()[0]
    assert said["response"] == "おはよう、よく眠れた？"
    assert said["context"] == '[{"speaker":"ユーザー","text":"item-0 について教えて"}]'
    assert said["reason.overall"] == "…"


def write(path: Path, table: Any, **more: Any) -> Path:
    pq.write_table(table, path, **more)
    return path


def refuse(path: Path, kind: str = "responses") -> str:
    with pytest.raises(InvalidRequest) as caught:
        read_run(open_files(str(path)), rubric_of(kind))
    for language in ("ja", "ko"):
        assert caught.value.message.say(language)
    return caught.value.detail


def test_what_is_no_file_of_results_is_refused_by_name(tmp_path: Path) -> None:
    table = make_table(make_rows("responses", 20), rubric_of("responses"))
    assert "no Parquet files" in refuse(tmp_path)
    assert "no Parquet files" in refuse(tmp_path / "nowhere")
    write(tmp_path / "a.parquet", table.drop_columns(["item_key"]))
    assert "no column item_key" in refuse(tmp_path / "a.parquet")
    nested = pa.array([{"a": 1}] * 20)
    write(tmp_path / "b.parquet", table.drop_columns(["mean.overall"]).append_column("mean.overall", nested))
    assert "the column mean.overall is of the type struct" in refuse(tmp_path / "b.parquet")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 and nothing else")
    assert "c.parquet: it cannot be read" in refuse(tmp_path / "c.parquet")
    place = table.schema.get_field_index("mean.overall")
    wild = table.set_column(place, "mean.overall", pa.array([1.0] * 12 + [float("inf")] + [2.0] * 7))
    write(tmp_path / "d.parquet", wild, row_group_size=10)
    assert refuse(tmp_path / "d.parquet").endswith(
        "d.parquet, row group 1: the column mean.overall holds an infinite value"
    )


def test_a_broken_row_group_is_named(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.parquet", make_table(make_rows("responses", 40), rubric_of("responses")), row_group_size=10
    )
    footer = pq.read_metadata(path)
    place = {footer.schema.column(n).path: n for n in range(footer.num_columns)}["item_key"]
    start = footer.row_group(2).column(place).data_page_offset
    body = bytearray(path.read_bytes())
    body[start : start + 12] = b"\xff" * 12
    path.write_bytes(bytes(body))
    assert "a.parquet: row group 2: it cannot be read" in refuse(path)


def test_columns_of_another_rubric_or_nested_ones_beside_disturb_nothing(tmp_path: Path) -> None:
    table = make_table(make_rows("responses", 20), rubric_of("responses"))
    more = table.append_column("mean.other", pa.array([1.5] * 20))
    more = more.add_column(0, "source", pa.array([{"a": 1, "b": [1, 2]}] * 20))
    plain = read_run(open_files(str(write(tmp_path / "a.parquet", table))), rubric_of("responses"))
    beside = read_run(open_files(str(write(tmp_path / "b.parquet", more))), rubric_of("responses"))
    assert show(beside.frame) == show(plain.frame)


@pytest.mark.parametrize("faults", ["[]", '{"any":5}', '{"any":[9]}', '{"any":[true]}', "{", '{"any":[-1]}'])
def test_faulty_turns_that_cannot_be_are_refused(faults: str, tmp_path: Path) -> None:
    table = make_table(make_rows("conversations", 20), rubric_of("conversations"))
    place = table.schema.get_field_index("faults")
    told = table.column("faults").to_pylist()
    told[13] = faults
    write(tmp_path / "a.parquet", table.set_column(place, "faults", pa.array(told)), row_group_size=10)
    assert "a.parquet, row group 1: the column faults" in refuse(tmp_path / "a.parquet", "conversations")


def test_too_many_different_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.offline.frame_reading.MOST_DISTINCT_VALUES", 5)
    table = make_table(make_rows("responses", 20), rubric_of("responses"))
    place = table.schema.get_field_index("system")
    many = table.set_column(place, "system", pa.array([f"s{number}" for number in range(20)]))
    assert "the column system holds more than 5" in refuse(write(tmp_path / "a.parquet", many))


def test_files_by_several_rubrics_are_no_run(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", make_table(make_rows("responses", 3), rubric_of("responses")))
    write(tmp_path / "b.parquet", make_table(make_rows("conversations", 3), rubric_of("conversations")))
    with pytest.raises(InvalidRequest, match="by the rubrics ja-conversation@2, ja-dialogue@2"):
        _ = open_files(str(tmp_path)).rubric


def test_a_memory_file_system_is_read_as_a_folder_is(tmp_path: Path) -> None:
    import fsspec

    rows = make_rows("responses", 12)
    files = fsspec.filesystem("memory")
    with files.open("/runs/a/part-0.parquet", "wb") as file:
        pq.write_table(make_table(rows, rubric_of("responses")), file)
    run = read_run(open_files("memory://runs/a"), rubric_of("responses"))
    assert show(run.frame) == show(place_figures(figures_of(rows), entries_of(rows)))


def test_responses_to_one_context_are_one_unit_where_no_dialogue_is_named(tmp_path: Path) -> None:
    bare = [row._replace(entry=row.entry.model_copy(update={"cluster": None})) for row in make_rows("candidates", 30)]
    run = read_run(open_files(str(store(bare, "candidates", tmp_path))), rubric_of("candidates"))
    found: dict[str, set[int]] = {}
    for row, cluster in zip(bare, run.frame.clusters.tolist(), strict=True):
        if row.record is not None:
            found.setdefault(row.entry.item, set()).add(cluster)
    assert [len(one) for one in found.values()] == [1] * 10
    assert len(set().union(*found.values()) - {0}) == 10


def sample(row: ScoredRow, probability: float) -> ScoredRow:
    """The row, of a conversation that a monitor sampled with this probability."""
    if row.record is None:
        return row
    evaluation = row.record.evaluation
    told = {**evaluation.metadata, "monitor": "mo_1", "probability": f"{probability:.6g}"}
    sampled = evaluation.model_copy(update={"metadata": told})
    return row._replace(record=row.record.model_copy(update={"evaluation": sampled}))


def test_what_a_conversation_counts_for_is_read_from_files(tmp_path: Path) -> None:
    rows = [sample(row, 0.1 if number % 3 else 1.0) for number, row in enumerate(make_rows("conversations"))]
    frame = read_run(open_files(str(store(rows, "conversations", tmp_path))), rubric_of("conversations")).frame
    expected = place_figures(figures_of(rows), entries_of(rows))
    assert show(frame) == show(expected)
    assert sorted(set(frame.probability.tolist())) == [0.1, 1.0]


@pytest.mark.parametrize("probability", [0.0, -1.0, 1.5, float("inf"), float("nan")])
def test_what_is_no_probability_is_refused(probability: float, tmp_path: Path) -> None:
    table = make_table(make_rows("responses", 3), rubric_of("responses"))
    place = table.schema.get_field_index("probability")
    wrong = table.set_column(place, table.schema.field(place), pa.array([None, 0.5, probability], pa.float64()))
    assert "column probability" in refuse(write(tmp_path / "a.parquet", wrong))


def test_files_of_earlier_releases_have_no_probability(tmp_path: Path) -> None:
    table = make_table(make_rows("responses", 3), rubric_of("responses")).drop_columns(["probability"])
    frame = read_run(open_files(str(write(tmp_path / "a.parquet", table))), rubric_of("responses")).frame
    assert frame.probability.tolist() == [1.0] * 3
