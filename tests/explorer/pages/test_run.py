"""The page of one run: its figures, what can be done with it, and who may."""

import asyncio
import importlib.abc
import json
import re
import sqlite3
import sys
import threading
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import saiten_server.stats.correlation
from saiten_server.core.errors import JudgeReplyInvalid, SaitenError
from saiten_server.core.evaluation import JudgeOptions, JudgeProvenance
from saiten_server.core.rubric import Rubric
from saiten_server.core.signature import describe_composites, describe_judge
from saiten_server.explorer.pages.run import (
    PIECES,
    WHAT_TO_DO,
    PeopleRow,
    PeopleScale,
    explain_signature,
    find_lowest,
    gather_figures,
    make_cards,
    titles_of,
)
from saiten_server.platform.web.language import TERMS
from saiten_server.runs.frame import RunFrame
from saiten_server.runs.store.frames import FrameStore
from saiten_server.runs.summary import AspectSummary, Summary
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder
from tests.support.keyed import make_keys
from tests.support.posted import NDJSON, make_body, make_context, make_item, post_batch, post_run, wait_for
from tests.support.seen_page import HOSTILE, Page
from tests.support.serving import serving
from tests.support.small_rubrics import aspect as make_aspect
from tests.support.small_rubrics import both
from tests.support.waiting import read_computed

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def look(client: httpx.AsyncClient, path: str, **headers: str) -> Page:
    return Page(await read_computed(client, path, **headers))


async def post_varied(client: httpx.AsyncClient) -> str:
    """The id of a completed run whose ratings differ from response to response."""
    said = (
        "海まで行ってきました。",
        "海",
        "週末は海まで出かけました。とても楽しかったです。",
        "犬犬犬犬犬",
        "はい、週末は山に。",
    )
    body = {"name": "varied", "items": [make_item(number, response=text) for number, text in enumerate(said)]}
    batch = (await client.post("/v1/batches", json=body)).json()
    await wait_for(client, batch["id"])
    return str(batch["id"])


async def test_figures_are_those_of_the_summary(client):
    run = await post_varied(client)
    page = await look(client, f"/runs/{run}")
    summary = (await client.get(f"/v1/batches/{run}/summary")).json()
    for aspect in summary["aspects"].values():
        assert f"{aspect['mean']:.2f}" in page.said
    assert summary["signature"] in page.said
    charts = [attributes["aria-label"] or "" for tag, attributes in page.tags if tag == "svg"]
    assert len(charts) == len(summary["aspects"])
    assert f"5 rated, mean {summary['aspects']['overall']['mean']:.2f}" in charts[-1]
    for said in ("Not validated against people", "version", "rubric and its version", "100.0%"):
        assert said in page.said
    for link in (f"/explore?run={run}", f"/rate?run={run}", f"/explore/aspects?run={run}", f"/?candidate={run}"):
        assert link in page.links()
    downloads = [link for link in page.links() if link.startswith("/v1/")]
    for address in downloads:
        assert (await client.get(address)).status_code == 200
    assert len(downloads) == 4


async def test_levels_and_warnings_lead_to_their_items(client):
    english = {
        "name": "varied",
        "items": [make_item(0, response="I went to the sea with my whole family."), make_item(1)],
    }
    run = (await client.post("/v1/batches", json=english)).json()["id"]
    await wait_for(client, run)
    page = await look(client, f"/runs/{run}")
    items = [link for link in page.links() if link.startswith(f"/explore?run={run}&")]
    assert f"/explore?run={run}&warning=language-mismatch" in items
    assert f"/explore?run={run}&warning=baseline-judge" not in items  # said of every one, and on top
    assert any("value=overall%3A" in link for link in items)
    assert any(link.endswith("measure=overall") for link in items)


async def test_a_large_run_is_shown_before_its_intervals(client, monkeypatch):
    read, ready = FrameStore.read_frame, asyncio.Event()

    async def read_later(*asked: Any) -> RunFrame:
        await ready.wait()
        return await read(*asked)

    monkeypatch.setattr(FrameStore, "read_frame", read_later)
    monkeypatch.setattr("saiten_server.explorer.pages.run.MOST_READ_AT_ONCE", 0)
    run = await post_varied(client)
    early = (await client.get(f"/runs/{run}", headers={"Accept": "text/html"})).text
    ready.set()
    aspects = (await client.get(f"/v1/batches/{run}/summary")).json()["aspects"]
    late = await read_computed(client, f"/runs/{run}")
    mean = f"{aspects['overall']['mean']:.2f}"
    assert all(("The intervals are being computed" in page) == (page == early) for page in (early, late))
    assert mean in early
    assert mean in late
    gathered, gather = list[dict[str, Any]](), gather_figures

    async def note(*asked: Any, **wishes: Any) -> dict[str, Any]:
        gathered.append(wishes)
        return await gather(*asked, **wishes)

    monkeypatch.setattr("saiten_server.explorer.pages.run.gather_figures", note)
    await look(client, f"/runs/{run}")
    assert gathered == [{"wait_seconds": None}]  # nothing is left to be computed behind the page


async def test_correlations_by_rank_and_by_value(client):
    run = await post_varied(client)
    pages = {name: await look(client, f"/runs/{run}?correlation={name}") for name in ("", "pearson", "nonsense")}
    ranks, values, other = (
        page.said.partition("Across the responses")[2].partition("Usage")[0] for page in pages.values()
    )
    assert re.search(r"[^.\d]0\.\d\d", ranks)
    assert ranks != values
    assert ranks == other


async def test_what_correlates_is_not_loaded_on_the_event_loop(client, monkeypatch):
    importing: list[threading.Thread] = []

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "saiten_server.stats.correlation":
                importing.append(threading.current_thread())

    run = await post_varied(client)
    monkeypatch.setattr(
        saiten_server.stats, "correlation", saiten_server.stats.correlation
    )  # put back afterwards, as in sys.modules
    monkeypatch.delitem(sys.modules, "saiten_server.stats.correlation")
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    await look(client, f"/runs/{run}")
    assert len(importing) == 1
    assert importing[0] is not threading.current_thread()


async def test_a_matrix_that_cannot_be_is_explained(client, monkeypatch):
    run = await post_run(client, "1")
    page = await look(client, f"/runs/{run}")
    assert "all ratings of" in page.said
    monkeypatch.setattr("saiten_server.explorer.pages.run.MOST_PATTERNS", 0)
    run = await post_run(client, "2", 4)
    assert "too many different values" in (await look(client, f"/runs/{run}")).said


async def test_what_people_would_say_stands_where_they_rated(client):
    """Overall is rated often enough for a corrected mean; coherence is not, and the page says how often it must be."""
    items = [
        make_item(number, context=make_context(number), response="はい。" * (1 + number % 5)) for number in range(40)
    ]
    batch = (await client.post("/v1/batches", json={"items": items})).json()["id"]
    await wait_for(client, batch)
    assert "On people's scale" not in (await look(client, f"/runs/{batch}")).said
    ratings = [
        {"batch": batch, "item": item["id"], "rater": "r1", "ratings": {"overall": 1 + (number * 7) % 5}}
        for number, item in enumerate(items[:30])
    ]
    ratings += [
        {"batch": batch, "item": item["id"], "rater": "r2", "ratings": {"coherence": number % 2}}
        for number, item in enumerate(items[:3])
    ]
    body = "".join(json.dumps(rating) + "\n" for rating in ratings)
    (await client.post("/v1/ratings", content=body, headers=NDJSON)).raise_for_status()
    report = (await client.post("/v1/analyses/corrected", json={"batch": batch})).json()
    (system,) = report["systems"].values()
    overall, coherence = system["aspects"]["overall"], system["aspects"]["coherence"]
    assert coherence["corrected"] is None
    for language, title, count in (
        ("en", "On people's scale", "30 of 40"),
        ("ja", "人の評価を基準に補正した値", "40 件中 30 件"),
        ("ko", "사람의 평가를 기준으로 보정한 값", "40건 중 30건"),
    ):
        section = (await look(client, f"/runs/{batch}", **{"Accept-Language": language})).said.partition(title)[2]
        assert count in section
        low, high = overall["corrected"]["interval"]
        for figure in (overall["judge"]["mean"], overall["corrected"]["mean"], low, high):
            assert f"{figure:.2f}" in section
        assert (coherence["refused"] in section) == (language == "en")
    for whose in ("judge", "corrected"):
        said = (await look(client, f"/runs/{batch}?figures={whose}")).said
        assert f"Corrected by people: {overall['corrected']['mean']:.2f} [" in said
        assert (f"The judge's mean {overall['judge']['mean']:.2f} ·" in said) == (whose == "corrected")

    # Where there is no corrected figure, the judge's does not stand in its place.
    told = (await look(client, f"/runs/{batch}?figures=corrected")).said
    cards = " ".join(told[told.index("The judge's figures") : told.index("On people's scale")].split())
    for name, needed in (("Coherence", coherence["ratings_needed"]), ("Naturalness", None)):
        card = cards[cards.index(f" {name} ") :].partition("Worst items")[0]
        found = re.search(r" – Corrected by people: No figure: about (\d+) ratings of a run are needed\.", card)
        assert found, card
        assert needed in (None, int(found[1]))
        assert "The judge's mean" in card


async def test_who_has_rated_enough_is_not_told_to_rate_as_many(client):
    items = [
        make_item(number, context=make_context(number), response="はい。" * (1 + number % 5)) for number in range(24)
    ]
    batch = (await client.post("/v1/batches", json={"items": items})).json()["id"]
    await wait_for(client, batch)
    assert "To confirm an aspect" in (await look(client, f"/runs/{batch}")).said
    ratings = [
        {"batch": batch, "item": item["id"], "rater": rater, "ratings": {"overall": 1 + (number * 7) % 5}}
        for number, item in enumerate(items)
        for rater in ("r1", "r2")
    ]
    body = "".join(json.dumps(rating) + "\n" for rating in ratings)
    (await client.post("/v1/ratings", content=body, headers=NDJSON)).raise_for_status()
    (await client.post("/v1/analyses/correlation", json={"batch": batch})).raise_for_status()
    section = (await look(client, f"/runs/{batch}")).said
    assert "Enough responses are rated" in section
    assert "To confirm an aspect" not in section


def test_a_note_names_the_measures_that_have_it():
    def row(name: str, *notes: str) -> Any:
        return PeopleRow(name, name, SimpleNamespace(notes=notes))  # type: ignore[arg-type]

    scale = PeopleScale((row("a", "all of them", "3 raters"), row("b", "all of them", "5 raters")), {})
    assert scale.notes == {"all of them": ["a", "b"], "3 raters": ["a"], "5 raters": ["b"]}


async def test_without_corrected_figures_the_judges_are_not_shown_for_them(client):
    run, _ = [await post_run(client, build, rubric="ko-dialogue") for build in "12"]
    told = " ".join((await look(client, f"/runs/{run}?figures=corrected")).said.split())
    assert "– Corrected by people: No figure: people's ratings are not sufficient." in told
    assert "––0.00 – 1.00" in told.partition("Composites")[2]
    assert "These figures are the judge's." in told.partition("Trend across builds")[2]
    plain = (await look(client, f"/runs/{run}")).said
    assert "Corrected by people" not in plain
    assert "These figures are the judge's." not in plain


async def test_runs_of_one_name_make_a_trend(client):
    first = await post_run(client, "b1")
    page = await look(client, f"/runs/{first}")
    assert "There is no other rated run named nightly" in page.said
    await post_run(client, "other", rubric="ko-comment")
    await post_run(client, "c1", metadata={"system": "bot-b", "build": "c1"})
    second = await post_run(client, "b2")
    page = await look(client, f"/runs/{second}")
    charts = [attributes["aria-label"] or "" for tag, attributes in page.tags if tag == "svg"]
    assert len(charts) == 12
    assert "Overall quality over the runs" in charts[-1]
    builds = re.findall(r"bot-[ab] ([bc]\d)", page.said)
    assert builds[:3] == ["b1", "c1", "b2"]
    assert "other" not in builds
    assert f"/explore?run={first}&run={second}" in page.links()
    assert "signatures differ" not in page.said


async def test_a_run_is_steered_and_its_pause_explained(waiting):
    run = (await post_batch(waiting, name="nightly"))["id"]

    async def steer(step: str) -> Page:
        response = await waiting.post(f"/runs/{run}/{step}", headers=FORM)
        assert (response.status_code, response.headers["location"]) == (303, f"/runs/{run}")
        return await look(waiting, f"/runs/{run}")

    page = await look(waiting, f"/runs/{run}")
    assert "Nothing is rated yet" in page.said
    actions = [attributes["action"] for tag, attributes in page.tags if tag == "form" and attributes.get("action")]
    assert {f"/runs/{run}/pause", f"/runs/{run}/cancel"} <= set(actions)
    page = await steer("pause")
    assert "Resume it to continue." in page.said
    assert "paused by a caller; resume it to go on" in page.said
    assert "queued" in (await steer("resume")).said
    page = await steer("cancel")
    assert "cancelled" in page.said
    assert not [attributes for _, attributes in page.tags if "data-live" in attributes]
    again = await waiting.post(f"/runs/{run}/pause", headers={**FORM, "Accept": "text/html"})
    assert again.status_code == 409


async def test_a_run_that_no_worker_takes_says_why(waiting, tmp_path):
    run = (await post_batch(waiting, name="nightly"))["id"]
    assert "waits for a worker" not in (await look(waiting, f"/runs/{run}")).said
    with closing(sqlite3.connect(tmp_path / "saiten.db")) as database, database:
        database.execute("UPDATE batches SET rubric_differs = 1 WHERE id = ?", (run,))
    page = await look(waiting, f"/runs/{run}")
    assert "waits for a worker with its rubric" in page.said
    assert "the workers' file of ja-dialogue" in page.said
    for language, short, long in (
        ("ja", "同じルーブリックを持つワーカー待ち", "処理できるワーカーがありません"),
        ("ko", "같은 루브릭이 있는 워커를 기다리는 중", "처리할 수 있는 워커가 없습니다"),
    ):
        page = await look(waiting, f"/runs/{run}", **{"Accept-Language": language})
        assert short in page.said
        assert long in page.said


async def test_a_run_is_deleted_after_a_question(client):
    run = await post_run(client, "1")
    page = await look(client, f"/runs/{run}/delete")
    assert "This cannot be undone" in page.said
    assert (await client.get(f"/runs/{run}")).status_code == 200
    gone = await client.post(f"/runs/{run}/delete", headers=FORM)
    assert (gone.status_code, gone.headers["location"]) == (303, "/")
    assert (await client.get(f"/runs/{run}")).status_code == 404
    assert (await client.get(f"/v1/batches/{run}")).status_code == 404


async def test_who_may_only_read_cannot_change_anything(tmp_path):
    async with serving(tmp_path, judge="lexical") as client:
        write, read, other = await make_keys(tmp_path, ("ours", "write"), ("ours", "read"), ("theirs", "admin"))
        run = (await client.post("/v1/batches", json=make_body(), headers=write)).json()["id"]
        page = Page((await client.get(f"/runs/{run}", headers=read)).text)
        assert f"/runs/{run}/delete" not in page.links()
        assert not [attributes for tag, attributes in page.tags if tag == "form" and "/runs/" in str(attributes)]
        for step in ("pause", "resume", "cancel", "delete"):
            path = f"/runs/{run}/{step}"
            assert (await client.post(path, headers={**read, **FORM})).status_code == 403
            assert (await client.post(path, headers={**other, **FORM})).status_code == 404
            foreign = {**write, **FORM, "Sec-Fetch-Site": "cross-site"}
            assert (await client.post(path, headers=foreign)).status_code == 403
        assert (await client.get(f"/runs/{run}/delete", headers=read)).status_code == 403
        for path in (f"/runs/{run}", f"/runs/{run}/delete", "/runs/%00", "/runs/ba_nothing"):
            assert (await client.get(path, headers=other)).status_code == 404


async def test_hostile_texts_are_text_and_nothing_is_inline(client):
    body = {
        "name": HOSTILE,
        "metadata": {"system": HOSTILE, "build": HOSTILE, "note": HOSTILE},
        "items": [make_item(0, response=HOSTILE), make_item(1, metadata={"system": HOSTILE})],
    }
    for _ in range(2):
        run = (await client.post("/v1/batches", json=body)).json()["id"]
        await wait_for(client, run)
    for path in (f"/runs/{run}", f"/runs/{run}/delete"):
        page = await look(client, path)
        assert HOSTILE in page.said
        assert not [tag for tag, _ in page.tags if tag == "img"]
        assert page.find_inline() == []


@pytest.mark.parametrize(("language", "said"), [("ja", "シグネチャ"), ("ko", "시그니처")])
async def test_other_languages(client, language, said):
    await post_run(client, "1")
    run = await post_run(client, "2")
    page = await look(client, f"/runs/{run}", **{"Accept-Language": language})
    assert said in page.said
    assert not re.search(r"\b(Rubric|Judge|Coverage|Worth|Signature|Download|ranks|scale)\b", page.said)


async def test_a_run_whose_rubric_is_gone_still_has_a_page(client, monkeypatch):
    run = await post_run(client, "1")
    monkeypatch.setattr("saiten_server.explorer.pages.run.find_rubric", lambda *_: None)
    page = await look(client, f"/runs/{run}")
    assert "no longer installed" in page.said
    assert f"/v1/batches/{run}/results" in page.links()


def test_every_pause_has_its_advice():
    assert set(TERMS["pause"]) <= set(WHAT_TO_DO)


async def test_every_piece_of_a_signature_is_explained(client):
    run = await post_run(client, "1", 1)
    signature = (await client.get(f"/v1/batches/{run}")).json()["signature"]
    sometimes = ["screen", "composites"]
    assert [name for name, _, _ in explain_signature(signature)] == [name for name in PIECES if name not in sometimes]
    rubric = RubricFiles([default_folder()]).get("lfqa")  # has a composite with absolute terms
    options = JudgeOptions(samples=2)
    judged = describe_judge(JudgeProvenance(kind="openai", model="m", screen=True), options)
    pieces = [*judged, *describe_composites(rubric, options)]
    assert pieces == [name for name in PIECES if name in pieces]
    assert set(sometimes) < set(pieces)
    assert all(meaning for _, _, meaning in explain_signature(f"{signature}|english.model:x"))


def test_failures_have_titles():
    assert str(titles_of(SaitenError)[JudgeReplyInvalid.code]) == "The judge gave no valid rating for any aspect"


def sum_up(**histograms: dict[int, int]) -> Summary:
    """A summary of ratings that are so spread, by aspect of `make_rubric`."""

    def spread(counts: dict[int, int]) -> AspectSummary:
        n = sum(counts.values())
        return AspectSummary(
            n=n,
            mean=sum(value * count for value, count in counts.items()) / n,
            sd=None,
            interval=None,
            unrated=0,
            unrated_reasons={},
            histogram={str(value): count for value, count in counts.items()},
            blended=None,
        )

    known: dict[str, Any] = {"batch": "ba_1", "aspects": {name: spread(each) for name, each in histograms.items()}}
    return Summary.model_construct(**known)


def make_rubric() -> Rubric:
    """`plain` from 1 to 5, and `inner` from -1 to 1 with its best level at 0."""
    return Rubric.model_validate(
        {
            "id": "inner",
            "version": 1,
            "source_language": "ja",
            "title": both("題", "Title"),
            "task": both("評価", "Rate."),
            "aspects": [
                make_aspect("plain", both("並", "Plain"), 1, 5),
                make_aspect("inner", both("内", "Inner"), -1, 1, best=0),
            ],
        }
    )


@pytest.mark.parametrize(
    ("inner", "lowest"),
    [({-1: 9, 0: 0, 1: 9}, "inner"), ({-1: 0, 0: 18, 1: 0}, "plain"), ({-1: 1, 0: 16, 1: 1}, "plain")],
)
def test_too_much_and_too_little_do_not_make_up_for_each_other(inner: dict[int, int], lowest: str):
    found = find_lowest(make_cards(make_rubric(), sum_up(plain={3: 0, 4: 18}, inner=inner), samples=1))
    assert found is not None
    assert found.id == lowest


def test_means_of_samples_are_not_found_by_their_level():
    for samples, is_link in ((1, True), (3, False)):
        (card,) = make_cards(make_rubric(), sum_up(plain={4: 3}), samples=samples)
        assert [level.items is not None for level in card.levels] == [is_link]
