"""The demo's runs are what the service takes, comparable build by build, and their ratings fit them."""

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import demo_ratings
from saiten_server.cli.demo import (
    BUILDS,
    RATINGS_FILE,
    RUNS,
    DemoRun,
    DemoTalks,
    load_conversations,
    load_runs,
    write_demo_lines,
)
from saiten_server.core.dialogue import DEFAULT_LIMITS, Dialogue
from saiten_server.platform.bundled import bundled_folder
from saiten_server.runs.document import BatchReader
from saiten_server.scoring.rubrics.files import default_folder, read_rubric_file
from saiten_server.text.faults import find_faults
from saiten_server.text.injection.inspection import inspect_dialogue

ROOT = Path(__file__).parents[2]
RUN_SIZES = {"ja-dialogue": 48, "ko-comment": 24, "ko-dialogue": 24}
UNIT = "-conversation"
MOST_BYTES = 40_000


@pytest.fixture(scope="module")
def runs() -> list[DemoRun]:
    return load_runs()


def named(runs: list[DemoRun], rubric: str, build: str) -> DemoRun:
    (found,) = [r for r in runs if (r.options.rubric, r.options.metadata["build"]) == (rubric, build)]
    return found


def test_every_run_is_a_batch_that_the_service_takes(runs: list[DemoRun]) -> None:
    assert len(runs) == 4 * len(RUN_SIZES) == 12
    talks = [*load_conversations()]
    assert [(run.options.rubric[:2], run.options.metadata["system"]) for run in talks] == [
        (language, f"bot-{letter}") for language in ("ko", "ja") for letter in "abc"
    ]
    posted: list[DemoRun | DemoTalks] = [*talks, *runs]
    for run in posted:
        reader = BatchReader(DEFAULT_LIMITS, ndjson=True)
        body = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in write_demo_lines(run)).encode()
        items = (*reader.feed(body), *reader.close())
        assert items == run.items
        assert reader.options == run.options


def test_only_the_worst_system_has_faults_that_rules_find() -> None:
    for run in load_conversations():
        codes = {found.code for talk in run.items for found in find_faults(talk, run.options.rubric.removesuffix(UNIT))}
        assert (len(codes) >= 4) == (run.options.metadata["system"] == "bot-c"), codes
        assert len(codes) in {0, 5, 6}


def test_each_rubric_has_two_builds_of_two_systems_on_the_same_items(runs: list[DemoRun]) -> None:
    for rubric, size in RUN_SIZES.items():
        mine = [run for run in runs if run.options.rubric == rubric]
        builds = [(run.options.metadata["system"], run.options.metadata["build"]) for run in mine]
        assert builds == [(system, build) for system, builds in BUILDS.items() for build in builds]
        assert len({run.options.name for run in mine}) == 1
        ids = [[item.id for item in run.items] for run in mine]
        assert all(found == ids[0] for found in ids)
        assert len(set(ids[0])) == size


def test_no_two_builds_answer_alike_and_a_build_goes_on_where_it_is_not_named(runs: list[DemoRun]) -> None:
    for rubric, size in RUN_SIZES.items():
        for builds in BUILDS.values():
            before, after = ([item.response for item in named(runs, rubric, build).items] for build in builds)
            same = sum(old == new for old, new in zip(before, after, strict=True))
            assert size / 4 < same < size


def test_flaws_go_with_the_response_that_has_them(runs: list[DemoRun]) -> None:
    before, after = named(runs, "ja-dialogue", "a-101"), named(runs, "ja-dialogue", "a-102")
    kinds = Counter(after.flaws.values())
    assert {"repeats", "drifts", "broken", "register", "language", "injection", "markup"} <= set(kinds)
    assert len(after.flaws) >= len(before.flaws) + 12
    told = set(named(runs, "ko-dialogue", "a-102").flaws.values())
    assert {"register", "ignores", "plain", "contradicts", "drifts", "misreads"} <= told <= set(demo_ratings.PERCEIVED)
    kept = {item.id for item in before.items} & {item.id for item in after.items if item in before.items}
    assert {i: f for i, f in before.flaws.items() if i in kept} == {i: f for i, f in after.flaws.items() if i in kept}


def test_injections_are_told_from_other_responses(runs: list[DemoRun]) -> None:
    suspected = {
        (run.options.rubric, str(item.id), warning.detail)
        for run in runs
        for item in run.items
        for warning in inspect_dialogue(Dialogue(context=item.context, response=str(item.response)))
    }
    assert {rubric for rubric, _, _ in suspected} == set(RUN_SIZES)
    assert len({detail for _, _, detail in suspected}) >= 3
    flawed = {(run.options.rubric, item) for run in runs for item, flaw in run.flaws.items() if flaw == "injection"}
    assert flawed <= {(rubric, item) for rubric, item, _ in suspected}


@pytest.mark.parametrize(("rubric", "count"), RUN_SIZES.items())
def test_ratings_are_of_known_items_by_three_simulated_raters_on_the_scales(
    runs: list[DemoRun], rubric: str, count: int
) -> None:
    scales = {aspect.id: aspect.scale for aspect in read_rubric_file(default_folder() / f"{rubric}.yaml").aspects}
    run = named(runs, rubric, "a-102")
    given = [rating for rated in run.ratings for rating in rated.by_rater("ba_1")]
    assert {(rating.item, rating.rater) for rating in given} == {
        (item.id, f"simulated-{number}") for item in run.items for number in (1, 2, 3)
    }
    assert len(given) == 3 * count
    for rating in given:
        assert set(rating.ratings) == set(scales)
        assert all(scales[name][0] <= value <= scales[name][1] for name, value in rating.ratings.items())
    assert all(not other.ratings for other in runs if other.options.metadata["build"] != "a-102")


def test_raters_differ_on_every_aspect(runs: list[DemoRun]) -> None:
    for rubric in RUN_SIZES:
        ratings = [rated.ratings for rated in named(runs, rubric, "a-102").ratings]
        for aspect in ratings[0]:
            assert any(len(set(each[aspect])) > 1 for each in ratings), aspect


def test_the_ratings_are_what_the_script_writes() -> None:
    assert demo_ratings.FILE.read_text(encoding="utf-8") == demo_ratings.render(), "run `make pages`"


def test_the_files_are_small() -> None:
    for name in (*RUNS, RATINGS_FILE):
        assert 1000 < len(bundled_folder("cli/demo_data").joinpath(name).read_bytes()) < MOST_BYTES


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    for name in (*RUNS, RATINGS_FILE):
        (tmp_path / name).write_bytes(bundled_folder("cli/demo_data").joinpath(name).read_bytes())
    first, second, *rest = (tmp_path / "runs-ja.jsonl").read_text(encoding="utf-8").splitlines()
    broken = {**json.loads(second), "responses": {"a-101": "はい。"}}
    lines = [first, json.dumps(broken), *rest]
    (tmp_path / "runs-ja.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"runs-ja\.jsonl, line 2: has no response of b-201"):
        load_runs(tmp_path)


def test_every_run_asks_for_reasons():
    runs: list[DemoRun | DemoTalks] = [*load_runs(), *load_conversations()]
    assert [run.options.judge.explain for run in runs] == [True] * len(runs)
