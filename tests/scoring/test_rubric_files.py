"""Rubric files: what is taken, and where each fault is pointed at."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from saiten.core.messages import Message
from saiten_server.core.errors import RubricInvalid, SettingsInvalid
from saiten_server.scoring.rubrics.files import (
    MAX_BYTES,
    RubricFault,
    RubricFiles,
    check_rubric,
    default_folder,
    read_rubric_file,
    read_yaml,
    rubric_paths,
)

GOOD = """\
# A comment.
id: small
version: 1
source_language: en
calls: joint
title: {en: A small rubric, ja: 小さな評価表}
task:
  en: Rate the response.
  ja: 応答を評価してください。
aspects:
  - id: warmth
    name: {en: Warmth, ja: 温かさ}
    question: {en: "Is it warm?", ja: 温かいですか。}
    levels:
      - value: 0
        label: {en: no, ja: いいえ}
        description:
          en: It is cold.
          ja: 冷たい。
      - value: 1
        label: {en: yes, ja: はい}
        description:
          en: It is warm.
          ja: 温かい。
composites:
  - id: mood
    kind: mean
    of: [warmth]
"""
LINES = {text.strip(): number for number, text in enumerate(GOOD.splitlines(), start=1)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def write(folder: Path, text: str | bytes, name: str = "small.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def changed(old: str, new: str) -> str:
    """The good file with one change; a test whose change does nothing fails here."""
    if GOOD.count(old) != 1:
        raise ValueError(f"{old!r} stands {GOOD.count(old)} times in the file")
    return GOOD.replace(old, new)


def places(faults: list[RubricFault]) -> list[tuple[int | None, str]]:
    return [(fault.line, fault.field) for fault in faults]


def test_a_good_file_has_no_faults(folder: Path):
    path = write(folder, GOOD)
    assert check_rubric(path) == []
    rubric = read_rubric_file(path)
    assert (rubric.id, rubric.languages, rubric.aspect("warmth").scale) == ("small", ("en", "ja"), (0, 1))


def test_a_text_is_read_once_and_understood_alike_each_time(folder: Path):
    broken = GOOD.replace("version: 1", "version: one") + "more: [1]\n"
    for name, text in (("small.yaml", GOOD), ("broken.yaml", broken)):
        (folder / name).write_text(text, encoding="utf-8")
    assert read_yaml(GOOD) is read_yaml(GOOD)
    assert read_rubric_file(folder / "small.yaml") == read_rubric_file(folder / "small.yaml")
    first, second = check_rubric(folder / "broken.yaml"), check_rubric(folder / "broken.yaml")
    assert len(first) == 2
    assert first == second
    (folder / "small.yaml").write_text(GOOD.replace("version: 1", "version: 2"), encoding="utf-8")
    assert read_rubric_file(folder / "small.yaml").version == 2


def test_yes_and_no_are_words_not_truth_values(folder: Path):
    levels = read_rubric_file(write(folder, GOOD)).aspects[0].levels
    assert [level.label["en"] for level in levels] == ["no", "yes"]


@pytest.mark.parametrize(("written", "version"), [("010", 10), ("+2", 2), ("0x10", None), ("1_0", None), ("2.0", None)])
def test_numbers_are_those_of_yaml_1_2(folder: Path, written: str, version: int | None):
    path = write(folder, changed("version: 1", f"version: {written}"))
    if version is None:
        assert places(check_rubric(path)) == [(LINES["version: 1"], "/version")]
    else:
        assert read_rubric_file(path).version == version


@pytest.mark.parametrize("start", ["\ufeff", "---\n", "\r\n"])
def test_marks_and_line_endings_of_other_systems_are_taken(folder: Path, start: str):
    plain = read_rubric_file(write(folder, GOOD)).digest
    assert read_rubric_file(write(folder, start + GOOD.replace("\n", "\r\n"))).digest == plain


def test_the_digest_ignores_layout_comments_and_key_order(folder: Path):
    plain = read_rubric_file(write(folder, GOOD)).digest
    moved = GOOD.replace("version: 1\n", "").replace("# A comment.\n", "") + "version: 1 # moved\n"
    folded = changed("  en: Rate the response.", "  'en': >-\n    Rate\n    the response.\n\n")
    assert read_rubric_file(write(folder, moved)).digest == plain
    assert read_rubric_file(write(folder, folded)).digest == plain


@pytest.mark.parametrize(
    ("old", "new"),
    [("It is warm.", "It is warm!"), ("version: 1", "version: 2"), ("はい}", "ええ}"), ("id: mood", "id: air")],
)
def test_the_digest_follows_each_word(folder: Path, old: str, new: str):
    plain = read_rubric_file(write(folder, GOOD)).digest
    assert read_rubric_file(write(folder, changed(old, new))).digest != plain


@pytest.mark.parametrize(
    ("old", "new", "place", "detail"),
    [
        ("version: 1", "version: one", (LINES["version: 1"], "/version"), "found 'one'"),
        ("version: 1", "version: 0", (LINES["version: 1"], "/version"), "greater than or equal to 1; found 0"),
        ("version: 1", "version: true", (LINES["version: 1"], "/version"), "must be an integer; found True"),
        ("version: 1", "version: " + "9" * 5000, (LINES["version: 1"], "/version"), "must be an integer"),
        ("version: 1", "version: 2024-01-01", (LINES["version: 1"], "/version"), "found '2024-01-01'"),
        ("version: 1\n", "", (2, "/version"), "is missing"),
        ("calls: joint", "call: joint", (LINES["calls: joint"], "/call"), "did you mean calls?"),
        ("version: 1", "version: 1\ncolour: red", (4, "/colour"), "is not a field of this mapping"),
        ("source_language: en", "source_language: EN", (4, "/source_language"), "found 'EN'"),
        ("source_language: en", "source_language: ko", (6, "/title"), "lacks the source language ko"),
        ("  ja: 応答を評価してください。\n", "", (LINES["task:"], "/task"), "lacks ja"),
        ("  en: Rate the response.", "  en: ''", (LINES["en: Rate the response."], "/task/en"), "1 or more characters"),
        ("  en: Rate the response.", "  en: [1]", (LINES["en: Rate the response."], "/task/en"), "must be a text"),
        ("  en: Rate the response.", '  en: "a\\0b"', (LINES["en: Rate the response."], "/task/en"), "U+0000"),
        ("  en: Rate the response.", "  en: Rate.\n  fr: Jugez.", (9, "/task/fr"), "a language that the title lacks"),
        ("  en: Rate the response.", "  en: Rate.\n  3: three", (9, "/task"), "put it in quotes: '3'"),
        ("  en: Rate the response.", "  en: Rate.\n  {a: b}: three", (9, "/task"), "put it in quotes"),
        ("  en: Rate the response.", "  en: Rate.\n  en: Rate!", (9, "/task/en"), "more than once"),
        ("title: {en: A small rubric, ja: 小さな評価表}", "title: A small rubric", (6, "/title"), "must be a mapping"),
        ("      - value: 1", "      - value: 2", (LINES["- value: 1"], "/aspects/0/levels/1/value"), "must be 1"),
        ("      - value: 1", "      - value: x", (LINES["- value: 1"], "/aspects/0/levels/1/value"), "found 'x'"),
        ("      - value: 1\n        label", "      - label", (LINES["- value: 1"], "/aspects/0/levels/1/value"),
         "is missing"),
        ("of: [warmth]", "of: [warmth, warmt]", (LINES["of: [warmth]"], "/composites/0/of/1"), "is not an aspect"),
        ("of: [warmth]", "of: []", (LINES["of: [warmth]"], "/composites/0/of"), "must hold at least 1; holds 0"),
        ("of: [warmth]", "of: warmth", (LINES["of: [warmth]"], "/composites/0/of"), "must be a list"),
        ("    of: [warmth]\n", "", (LINES["- id: mood"], "/composites/0/of"), "is missing"),
        ("    kind: mean\n", "", (LINES["- id: mood"], "/composites/0/kind"), "is missing: mean or linear"),
        ("kind: mean", "kind: median", (LINES["kind: mean"], "/composites/0/kind"), "mean or linear; found 'median'"),
        ("- id: mood", "- id: warmth", (LINES["- id: mood"], "/composites/0/id"), "is the id of an aspect"),
        ("id: small", "id: smaller", (LINES["id: small"], "/id"), "must be called smaller.yaml, not small.yaml"),
        ("id: small", "id: ../small", (LINES["id: small"], "/id"), "must match"),
    ],
)  # fmt: skip
def test_each_fault_is_at_its_line_and_field(folder: Path, old: str, new: str, place: tuple[int, str], detail: str):
    faults = check_rubric(write(folder, changed(old, new)))
    assert places(faults) == [place]
    assert detail in faults[0].detail


def test_a_linear_composite_is_pointed_at_without_its_kind(folder: Path):
    text = changed("    kind: mean\n    of: [warmth]\n", "    kind: linear\n    terms:\n      - {aspect: warmth}\n")
    faults = check_rubric(write(folder, text))
    assert places(faults) == [(LINES["kind: mean"] + 2, "/composites/0/terms/0/weight")]


def test_all_faults_are_reported_from_the_top(folder: Path):
    text = changed("version: 1", "version: 1\nversion: 2").replace("value: 1", "value: one").replace("of:", "off:")
    assert places(check_rubric(write(folder, text))) == [
        (4, "/version"),
        (LINES["- value: 1"] + 1, "/aspects/0/levels/1/value"),
        (LINES["- id: mood"] + 1, "/composites/0/of"),
        (LINES["of: [warmth]"] + 1, "/composites/0/off"),
    ]


def test_all_faults_across_fields_are_reported_too(folder: Path):
    text = changed("of: [warmth]", "of: [wit]").replace("      - value: 1", "      - value: 1\n        example: null")
    text = text.replace(", ja: はい", "")
    assert places(check_rubric(write(folder, text))) == [
        (LINES["label: {en: yes, ja: はい}"] + 1, "/aspects/0/levels/1/label"),
        (LINES["of: [warmth]"] + 1, "/composites/0/of/0"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "detail"),
    [
        ("", 1, "is empty"),
        ("# only a comment\n", 1, "is empty"),
        ("a: [1, 2\nb: 3\n", 2, "is not valid YAML"),
        ("a: 1\n\tb: 2\n", 2, "is not valid YAML"),
        ("a: b: c\n", 1, "is not valid YAML"),
        ("id: x\n---\nid: y\n", 2, "expected a single document"),
        ("a: 1\nb: '\x07'\n", 2, "U+0007"),
        ('a: 1\nb: "\\UFFFFFFFF"\n', 2, "is not valid YAML"),
        ("a: 1\nb: &x [1]\n", 2, "anchors (&) and aliases (*)"),
        ("a: 1\nb: *x\n", 2, "anchors (&) and aliases (*)"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", 2, "tags"),
        ("a: 1\nb: ! x\n", 2, "tags"),
        ("a: 1\nb: " + "[" * 100 + "]" * 100, 2, "nested more than"),
        ("a: 1\n" + "- " * 5000, 2, ""),
        (b"a: 1\nb: \x82\xa0\n", 2, "is not UTF-8: byte 0x82"),
        ("id: small".encode("utf-16"), 1, "is not UTF-8"),
    ],
)
def test_what_is_no_document_has_one_fault(folder: Path, text: str | bytes, line: int, detail: str):
    faults = check_rubric(write(folder, text))
    assert places(faults) == [(line, "")]
    assert detail in faults[0].detail


@pytest.mark.parametrize("text", ["just a text", "- a\n- b\n", "42", "null"])
def test_the_top_must_be_a_mapping(folder: Path, text: str):
    assert check_rubric(write(folder, text)) == [RubricFault(1, "", Message("must-be-mapping"))]


def test_aliases_do_not_unfold(folder: Path):
    # Nine levels of nine aliases each would unfold to 9 ** 9 texts.
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    assert places(check_rubric(write(folder, "\n".join(lines)))) == [(1, "")]


def test_a_file_over_the_limit_is_refused_and_one_at_it_is_read(folder: Path):
    at_limit = GOOD + "#" * (MAX_BYTES - len(GOOD.encode()) - 1) + "\n"
    assert check_rubric(write(folder, at_limit)) == []
    assert check_rubric(write(folder, at_limit + "\n")) == [
        RubricFault(None, "", Message("file-bytes-most", bytes=MAX_BYTES))
    ]


def test_what_cannot_be_read_has_no_line(folder: Path):
    (folder / "folder.yaml").mkdir()
    assert check_rubric(folder / "folder.yaml") == [RubricFault(None, "", Message("not-a-file"))]
    assert check_rubric(folder / "absent.yaml") == [
        RubricFault(None, "", Message("file-unreadable", problem="No such file or directory"))
    ]


def test_a_pipe_is_not_waited_for(folder: Path):
    os.mkfifo(folder / "pipe.yaml")
    assert check_rubric(folder / "pipe.yaml") == [RubricFault(None, "", Message("not-a-file"))]


def test_a_broken_file_raises_its_first_fault_with_place_and_count(folder: Path):
    path = write(folder, changed("version: 1", "version: x").replace("value: 1", "value: y"))
    with pytest.raises(RubricInvalid) as caught:
        read_rubric_file(path)
    error = caught.value
    assert (error.path, error.line, error.field) == (str(path), 3, "/version")
    assert error.detail.startswith(f"{path}:3: /version: ")
    assert error.detail.endswith(f"(and 1 more: see saiten rubric check {path})")


def test_folders_add_up(folder: Path):
    (folder / "one").mkdir()
    (folder / "two").mkdir()
    write(folder / "one", GOOD)
    write(folder / "two", changed("id: small", "id: other"), "other.yaml")
    source = RubricFiles([folder / "two", folder / "one"])
    assert [rubric.id for rubric in source.list()] == ["other", "small"]


def test_an_id_in_two_folders_names_both_files(folder: Path):
    (folder / "one").mkdir()
    (folder / "two").mkdir()
    first, second = write(folder / "one", GOOD), write(folder / "two", GOOD)
    with pytest.raises(RubricInvalid) as caught:
        RubricFiles([folder / "one", folder / "two"])
    assert caught.value.path == str(second)
    assert str(first) in caught.value.detail
    assert str(second) in caught.value.detail


def test_an_older_version_stands_in_a_file_of_its_own_beside_the_newest(folder: Path):
    older = write(folder, GOOD, "small.v1.yaml")
    newest = write(folder, changed("version: 1", "version: 2"))
    assert check_rubric(older) == check_rubric(newest) == []
    source = RubricFiles([folder])
    assert (source.get("small").version, source.get("small@1").version) == (2, 1)


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        (None, "(there is none)"),
        ("version: 1", ", not 1"),
        ("version: none", "(there is none)"),
        ("- 1", "(there is none)"),
    ],
)
def test_an_older_version_needs_a_newer_one_beside_it(folder: Path, beside: str | None, words: str):
    path = write(folder, GOOD, "small.v1.yaml")
    if beside is not None:
        write(folder, changed("version: 1", beside) if ":" in beside else beside)
    (fault,) = check_rubric(path)
    assert (fault.line, fault.field) == (LINES["version: 1"], "/version")
    assert (
        fault.detail == f"is 1, and small.yaml beside it must hold a newer version{' ' if '(' in words else ''}{words}"
    )
    with pytest.raises(RubricInvalid):
        RubricFiles([folder])


@pytest.mark.parametrize("name", ["small.v2.yaml", "small@1.yaml", "small.v01.yaml", "v1.yaml"])
def test_a_file_is_called_as_id_and_version_in_it(folder: Path, name: str):
    write(folder, changed("version: 1", "version: 3"))
    (fault,) = check_rubric(write(folder, GOOD, name))
    assert (fault.line, fault.field) == (LINES["id: small"], "/id")
    assert "small.yaml" in fault.detail
    assert "small.v1.yaml, beside a newer version" in fault.detail


def test_another_folder_adds_no_version_to_a_rubric(folder: Path):
    """A score would silently change its meaning."""
    (folder / "one").mkdir()
    (folder / "two").mkdir()
    write(folder / "one", GOOD)
    write(folder / "two", changed("version: 1", "version: 2"))
    with pytest.raises(RubricInvalid, match="is taken by"):
        RubricFiles([folder / "one", folder / "two"])


def test_only_visible_yaml_files_of_the_folder_itself_are_read(folder: Path):
    wanted = write(folder, GOOD)
    for name in ("rubric.schema.json", "notes.md", "other.yml", ".hidden.yaml", "small.yaml~", "small.yaml.orig"):
        write(folder, "broken: [", name)
    (folder / ".#lock.yaml").symlink_to(folder / "nowhere")
    (folder / "sub.yaml").mkdir()
    write(folder / "sub.yaml", "broken: [")
    assert rubric_paths(folder) == [wanted]
    assert [rubric.id for rubric in RubricFiles([folder]).list()] == ["small"]


def test_one_broken_file_stops_the_whole_source(folder: Path):
    write(folder, GOOD)
    write(folder, "id: zz", "zz.yaml")
    with pytest.raises(RubricInvalid) as caught:
        RubricFiles([folder])
    assert caught.value.path == str(folder / "zz.yaml")


def test_files_are_read_once(folder: Path):
    path = write(folder, GOOD)
    source = RubricFiles([folder])
    path.unlink()
    assert source.get("small").version == 1


@pytest.mark.parametrize("name", ["absent", "small.yaml"])
def test_a_folder_that_is_none_is_the_operators_to_mend(folder: Path, name: str):
    write(folder, GOOD)
    with pytest.raises(SettingsInvalid) as caught:
        RubricFiles([folder / name])
    assert str(folder / name) in caught.value.detail


def test_the_shipped_rubrics_are_in_the_default_folder():
    assert {path.name for path in rubric_paths(default_folder())} >= {"ja-dialogue.yaml", "ko-comment.yaml"}


def test_shipped_rubrics_lie_inside_an_installed_package_and_beside_a_checkout(folder: Path):
    package = folder / "app"
    package.mkdir()
    assert default_folder(package) == folder / "rubrics"
    (package / "rubrics").mkdir(parents=True)
    assert default_folder(package) == package / "rubrics"


def test_the_format_carries_independent_calls_worked_examples_and_linear_composites():
    rubric = read_rubric_file(Path(__file__).parents[1] / "support" / "rubrics" / "lfqa-like.yaml")
    assert rubric.calls == "independent"
    assert [(aspect.id, aspect.scale) for aspect in rubric.aspects] == [
        ("formality", (-1, 1)),
        ("amount_info", (-1, 1)),
        ("factuality", (0, 3)),
    ]
    worked = {aspect.id: aspect.one_shot["en"].rating for aspect in rubric.aspects if aspect.one_shot}
    assert worked == {"formality": 0, "amount_info": -1}
    assert [composite.aspects for composite in rubric.composites] == [("factuality", "amount_info", "formality")]


quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_bytes_raise(tmp_path: Path, raw: bytes):
    for fault in check_rubric(write(tmp_path, raw)):
        assert fault.report("x").isprintable()


@quick
@given(
    st.integers(0, len(GOOD)), st.integers(0, 12), st.text("[]{}&*!|>'\"%@`:,-?#\n\t \x85\u2028019aé日~.", max_size=6)
)
def test_no_slip_of_the_pen_raises(tmp_path: Path, at: int, length: int, inserted: str):
    text = GOOD[:at] + inserted + GOOD[at + length :]
    for fault in check_rubric(write(tmp_path, text)):
        assert 1 <= (fault.line or 0) <= len(text.splitlines()) + 1
        assert fault.report("x").isprintable()
