"""Client and AsyncClient against a service over HTTP: every resource, runs, tables, and what is refused."""

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, assert_type

import httpx
import pytest
from pyarrow.parquet import write_table

import saiten
from saiten.answer import Report
from saiten.answers import AgreementReport, Batch, Evaluation, ResultRow
from saiten.client import REPORTS
from saiten.items import LinesBody, name_speakers
from saiten.run import need
from saiten_server.offline.frame_files import make_table
from tests.support.both_clients import Kind, client_of
from tests.support.keyed import make_keys
from tests.support.offline_rows import make_rows, rubric_of
from tests.support.posted import make_context, make_item
from tests.support.serving import openapi_document, serving

CONTEXT = ["週末はどこかに出かけましたか？", "はい、家族で海まで行ってきました。"]
ITEMS = [
    {"id": "sea-1", "context": [*CONTEXT], "response": "海の水は冷たかったですか？", "metadata": {"system": "bot-a"}},
    {"id": "sea-2", "context": [*CONTEXT], "responses": ["泳ぎましたか？", "そうですか。"], "dialogue": "sea"},
]
TERMS = {"test": "unpaired", "alpha": 0.1, "seed": 3}


@pytest.fixture
async def client(client: httpx.AsyncClient, kind: Kind) -> AsyncIterator[Any]:
    async with client_of(kind, str(client.base_url)) as found:
        yield found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, httpx.Headers]]:
    """Method, path and headers of each request that is sent."""
    found: list[tuple[str, str, httpx.Headers]] = []
    send = httpx.AsyncHTTPTransport.handle_async_request

    async def record(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        found.append((request.method, request.url.path, request.headers))
        return await send(self, request)

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", record)
    return found


def find_operation(method: str, path: str, routes: dict[str, Any]) -> tuple[str, str]:
    """The operation of the document that a request is; a path without parameters comes first."""
    for route in sorted(routes, key=lambda route: route.count("{")):
        if method.lower() in routes[route] and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route), path):
            return method, route
    raise LookupError(f"{method} {path}")


async def test_every_resource_is_asked(
    client: Any, asked: list[tuple[str, str, httpx.Headers]], tmp_path: Path
) -> None:
    assert (await client.info()).judge.baseline
    (rubric,) = [rubric for rubric in await client.rubrics() if rubric.id == "ja-dialogue"]
    assert (await client.rubric(rubric.name)).aspects[0].levels

    result = await client.evaluate(context=CONTEXT, response="いいですね。", relevance=None, metadata={"user": "u-1"})
    assert result.aspects["consistency"].scale
    again = await client.evaluation(result.id, trace=True, request=True)
    assert [*again.request["context"][0].items()] == [("speaker", "B"), ("text", CONTEXT[0])]
    assert (again.signature, again.trace) != (None, None)
    explained = await client.explain(result.id, budget_usd=1)
    assert explained.explained.aspects["consistency"].reason
    assert explained.aspects == result.aspects
    since = again.created_at
    found = await client.evaluations(metadata={"user": "u-1"}, created_from=since, status="scored", rubric=rubric.name)
    assert [evaluation.id for evaluation in found] == [result.id]
    assert await client.evaluations(created_before=since) == []

    turns = [
        {"speaker": "A", "role": "user", "text": "今日は何名様ですか。"},
        {"speaker": "B", "role": "system", "text": "今日はとてもよい天気だと思います。"},
        {"speaker": "A", "role": "user", "text": "本当ですね。"},
        {"speaker": "B", "role": "system", "text": "今日はとてもよい天気だと思います。"},
    ]
    talk = await client.evaluate_conversation(turns, persona={"name": "B"}, rubric="ja-conversation")
    assert [(found.turn, found.code) for found in talk.findings or ()] == [(3, "repetition")]
    assert (await client.conversation(talk.id, request=True)).request["turns"][0]["text"] == turns[0]["text"]

    before = await client.run(iter(ITEMS), rubric="ja-dialogue", name="main", metadata={"build": "1"})
    after = await client.run(ITEMS, rubric="ja-dialogue", name="branch")
    assert (await client.estimate(ITEMS)).candidates == 3
    assert [batch.id for batch in await client.batches()] == [after.id, before.id]
    assert [batch.id for batch in await client.batches(metadata={"build": "1"}, status="completed")] == [before.id]
    assert (await client.batch(before.id)).counts.done == 3
    assert len(await client.evaluations(batch=before)) == 3
    assert [row.item for row in await client.results(after, after=0)] == ["sea-2", "sea-2"]
    assert [row.position for row in await client.results(after.id, limit=1)] == [0]
    (row,) = await client.results(before, after=1, texts=True)
    assert (row.context[-1]["text"], row.response, row.batch_metadata) == (
        CONTEXT[-1],
        "そうですか。",
        {"build": "1"},
    )
    assert (await client.results_csv(after, texts=True))[0].startswith('"item","context","response"')
    assert (await client.results_csv(after))[0].startswith('"item","position"')
    assert (await client.summary(after)).coverage.share == 1

    write_table(make_table(make_rows("responses", 3), rubric_of("responses")), tmp_path / "night.parquet")
    assert (await client.adopt(tmp_path / "night.parquet", name="night")).status == "completed"

    comparison = await client.compare(before, after.asked, **TERMS)
    assert (comparison.alpha, comparison.pairing.test) == (0.1, "unpaired")
    rule = saiten.Rule("overall", max_drop=0.1)
    report = await client.gate(candidate=after.asked, baseline=before.id, rules=[rule], min_coverage=0.5)
    assert (report.rules, report.comparison is not None) == ((rule,), True)
    assert (await client.check_judge(rubric="ja-dialogue")).verdict in {"recorded", "steady"}

    kept = await client.gate(candidate=after, baseline=before, keep=True, metadata={"commit": "c1"})
    assert (await client.get_gate(kept)) == kept
    assert [(one.id, one.runs) for one in await client.gates(candidate=after)] == [
        (kept.id, {"candidate": after.id, "baseline": before.id})
    ]
    rows = await client.results(after)
    given = await client.gate(candidate=rows, baseline=before, rules=[rule], min_coverage=0.5)
    assert (given.verdict, given.id) == (report.verdict, None)
    plain = [row.model_dump(mode="json", exclude_unset=True) for row in rows]
    named = await client.gate(candidate={"results": plain, "name": "after"}, baseline=before, rules=[rule])
    assert named.comparison is not None
    assert (named.verdict, named.comparison.candidate) == (report.verdict, "after")
    for unfit in ({}, {"results": "after.ndjson"}, {"results": None}):
        with pytest.raises(saiten.InputUnusable, match=r"candidate: must be a batch, results, or"):
            await client.gate(candidate=unfit, baseline=before)
    file = tmp_path / "after.ndjson"
    file.write_text("".join(f"{row.model_dump_json(exclude_unset=True)}\n" for row in rows), encoding="utf-8")
    compared = await client.compare(before, file, **TERMS)
    assert (compared.candidate, compared.aspects) == ("after.ndjson", comparison.aspects)
    file.write_text("{", encoding="utf-8")
    with pytest.raises(saiten.SaitenError, match=r"after\.ndjson: "):
        await client.gate(candidate=file)

    assert (await client.pin_baseline("main", before)).batch == before.id
    assert [(one.name, one.batch) for one in await client.baselines()] == [("main", before.id)]
    await client.unpin_baseline("main")
    night = await client.gate(candidate=after.asked, baseline=before.id, rules=[rule], sequence="nightly")
    assert (night.sequence and night.sequence.night) == 1
    assert [one.baseline for one in await client.sequences()] == [before.id]
    assert [one.batch for one in (await client.sequence("nightly")).builds] == [after.asked.id]
    await client.delete_sequence("nightly")

    same = await client.prefer("はい。", "はい。", context=CONTEXT, metadata={"user": "u-2"})
    assert (await client.preference(same.id)).aspects["overall"].preference == "tie"
    first: Any = ITEMS[0]
    changed: list[Any] = [{**first, "response": "はい。"}, *ITEMS[1:]]
    other = await client.run(changed, metadata={"system": "bot-b"})
    assert (await client.estimate_preference_run([after, other])).candidates == 3
    summary = await client.compare_runs([after, other], name="pairs", budget_usd=1)
    assert summary.aspects["overall"].tie == 2
    board = await client.leaderboard(preference_run=summary.id)
    assert board.judge is not None
    ranking = await client.rank(preference_run=summary.id, alpha=0.1)
    assert (ranking.alpha, [*ranking.systems]) == (0.1, [*board.judge.systems])
    duel = await client.preference_run(summary.id)
    assert (duel.rubric_name, [one.id for one in await client.preference_runs(name="pairs")]) == (
        after.batch.rubric_name,
        [duel.id],
    )
    assert [row.item for row in await client.preference_results(duel, texts=True)] == ["sea-1", "sea-2", "sea-2"]
    held = await client.create_preference_run([after, other])
    for step in (client.pause_preference_run, client.resume_preference_run, client.cancel_preference_run):
        # It may have ended by now.
        with suppress(saiten.ServiceRefused):
            assert (await step(held)).id == held.id
    await client.erase_preference_run(held)

    harsher = await client.run(ITEMS, rubric="ja-dialogue", judge={"samples": 2})
    link = await client.link(harsher.id, after.id)
    assert {one.state for one in link.aspects.values()} == {"refused"}
    assert ((await client.read_link(link)).id, [one.id for one in await client.links()]) == (link.id, [link.id])
    await client.delete_link(link)

    ratings = [{"item": "sea-1", "batch": after.id, "rater": f"r{n}", "ratings": {"overall": n}} for n in (1, 2)]
    assert (await client.validate_ratings(ratings)).ratings == 2
    dialogues = await client.validate_evaluations([{"context": ["はい"], "response": "ええ。", "dialogue": "d"}])
    assert [cluster is not None for cluster in dialogues.clusters] == [True]
    assert (
        await client.validate_gate(candidate_rubric="ja-dialogue", rules=[{"aspect": "overall", "min_mean": 2}])
    ).rules
    added = await client.add_ratings(ratings)
    assert (added.added, added.replaced) == (2, 0)
    assert [rating.rater for rating in await client.ratings(batch=after.asked)] == ["r1", "r2"]
    agreement = await client.analyse("agreement", batch=after.asked)
    assert isinstance(agreement, AgreementReport)
    assert agreement.ratings_used is not None
    opened = await client.open_round(before, "main", items=2, choose="stratified")
    assert (opened.drawn, [one.id for one in await client.rounds(before.id)]) == (2, [opened.id])
    assert (await client.round(opened.id)).progress.wanted == 6
    assert [one.probability is not None for one in await client.round_items(opened.id)] == [True, True]
    assert (await client.close_round(opened.id)).closed_at is not None
    assert opened.shared is None
    after_round = await client.open_round(after.asked, "branch", shared_with=opened.id)
    assert after_round.shared is not None
    assert (after_round.shared.round, after_round.shared.raters, after_round.shared.needed) == (opened.id, 0, 15)
    assert (await client.round_figures(after_round.id, margin=0.2, looks="any")).margin == 0.2
    side_by_side = await client.open_preference_round([after, other.id], "pairs", items=9, seed=1)
    assert [one.id for one in await client.preference_rounds()] == [side_by_side.id]
    assert (await client.preference_round(side_by_side.id)).progress.ratings == 0
    pairs = await client.preference_round_items(side_by_side.id)
    assert {(one.first, one.second) for one in pairs} == {(after.id, other.id)}
    said = [{"pair": pairs[0].pair, "rater": f"r{n}", "preference": "first"} for n in (1, 2)]
    assert (await client.add_preferences(said)).added == 2
    kept = await client.human_preferences(round=side_by_side.id)
    assert [(one.rater, one.preference) for one in kept] == [("r1", "first"), ("r2", "first")]
    assert (await client.preference_round_agreement(side_by_side.id)).unanimous == 1
    assert await client.remove_preferences(rater="r2", run=after.asked) == 1
    assert (await client.close_preference_round(side_by_side.id)).closed_at is not None
    assert (await client.exclude(rater="r1"), await client.exclude(rater="r1")) == (True, False)
    assert [exclusion.rater for exclusion in await client.exclusions()] == ["r1"]
    assert (await client.include(rater="r1"), await client.include(rater="r1")) == (True, False)
    assert await client.remove_ratings(rater="r1") == 1

    posted = await client.create_batch([make_item(number) for number in range(200)])
    await client.pause_batch(posted)
    await client.resume_batch(posted)
    await client.cancel_batch(posted)
    assert (await client.follow(posted))[-1].status == "cancelled"
    await client.erase_batch(posted)
    await watch_live_conversations(client)
    assert (await client.policy()).texts == "keep"
    assert (await client.set_policy(texts="hash", after_days=7)).after_days == 7
    assert (await client.judge_pause()).seconds == 0
    await client.reopen_judge()
    assert (await client.erase({"user": "u-1"})).evaluations == 1
    assert {event.action for event in await client.audit()} >= {"batch.erased", "policy.changed"}

    routes = openapi_document()["paths"]
    wanted = {(method.upper(), route) for route in routes if route.startswith("/v1") for method in routes[route]}
    # Exporters of OpenTelemetry send these.
    wanted -= {("POST", "/v1/traces"), ("POST", "/v1/logs")}
    found = {find_operation(method, path, routes) for method, path, _ in asked}
    assert wanted == found
    # A request that creates something says which one it is, so that it can be sent again.
    creating = {
        find_operation("POST", path, routes)[1] for method, path, headers in asked if "idempotency-key" in headers
    }
    stated = {route for route, one in routes.items() if "Idempotency-Key" in str(one.get("post", {}).get("parameters"))}
    assert creating == stated


async def watch_live_conversations(client: Any) -> None:
    """Makes a monitor, changes and removes it, and asks what bots have sent: nothing."""
    made = await client.create_monitor(name="support", rubric="ja-conversation", rate=0.5)
    assert [one.id for one in await client.monitors()] == [made.id]
    assert (await client.change_monitor(made, rate=0.25)).version == 2
    assert (await client.monitor(made.id)).options.rate == 0.25
    assert (await client.monitor_windows(made), await client.monitor_conversations(made)) == ([], [])
    assert (await client.monitor_alarms(made)).items == ()
    for use in (
        client.add_to_dataset(made, "hard", filter={"at_most": {"overall": 3}}),
        client.open_monitor_round(made, "yesterday"),
        client.pin_window(made),
    ):
        with pytest.raises(saiten.ServiceRefused):
            await use
    await client.delete_monitor(made)
    assert (await client.traces()).unread == ()
    assert await client.live_conversations(state="open") == []
    for step in (client.live_conversation, client.erase_live_conversation):
        with pytest.raises(saiten.ServiceRefused, match="lc_0"):
            await step("lc_0")


async def test_a_run_waits_and_tells_its_progress(client: Any) -> None:
    seen: list[Batch] = []
    run = await client.run((make_item(number) for number in range(40)), name="夜間", progress=seen.append)
    assert (run.batch.status, run.batch.name, seen[-1]) == ("completed", "夜間", run.batch)
    assert run.summary.aspects["overall"].mean == pytest.approx(run.summary.aspects["overall"].mean)
    assert [row.item for row in await run.results()] == [f"i{number}" for number in range(40)]
    waited = await client.wait(run.id)
    assert waited.summary == run.summary


async def test_a_bar_is_shown_on_standard_error(client: Any, capfd: pytest.CaptureFixture[str]) -> None:
    await client.run(ITEMS, name="[red]夜間", progress=True)
    output, errors = capfd.readouterr()
    assert output == ""
    assert "[red]夜間: completed" in errors
    assert "3/3" in errors


async def test_a_run_is_a_table(client: Any, tmp_path: Path) -> None:
    strange = {"id": "sea-3", "context": ["やあ"], "response": "はい", "metadata": {"note": "海"}}
    run = await client.run([*ITEMS, strange], judge={"samples": 2}, metadata={"build": "1a2b"})
    table = await run.to_table()
    assert table["item"] == ["sea-1", "sea-2", "sea-2", "sea-3"]
    assert table["candidate"] == [None, 0, 1, None]
    assert table["metadata.system"] == ["bot-a", None, None, None]
    assert table["metadata.note"][3] == "海"
    names = (await client.results_csv(run))[0].strip().replace('"', "").split(",")
    assert {name for name in names if name.startswith(("overall", "failure", "relevance."))} <= table.keys()
    frame = await run.to_pandas()
    assert frame["overall.mean"].tolist() == table["overall.mean"]
    assert frame.shape == (4, len(table))
    told = await run.to_table(texts=True)
    assert (told["response"][3], told["context"][3]) == ("はい", "A: やあ")
    assert (told["batch_metadata.build"], told.keys() - table.keys()) == (["1a2b"] * 4, {"context", "response"})


async def test_polars_is_used_where_it_is(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = await client.run(ITEMS)
    monkeypatch.delitem(sys.modules, "polars", raising=False)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ModuleNotFoundError, match="polars is not installed; run: pip install polars"):
        await run.to_polars()
    fake = SimpleNamespace(DataFrame=lambda table, **_: table)
    monkeypatch.setitem(sys.modules, "polars", fake)
    assert (await run.to_polars())["item"] == ["sea-1", "sea-2", "sea-2"]
    with pytest.raises(ModuleNotFoundError, match="nothing_of_this_name is not installed"):
        need("nothing_of_this_name")


async def test_a_bad_item_refuses_the_batch_with_its_place(client: Any) -> None:
    with pytest.raises(saiten.ServiceRefused) as caught:
        await client.run([*ITEMS, {"context": CONTEXT, "response": " "}])
    assert (caught.value.code, caught.value.faults[0][0]) == ("invalid-request", "/items/2/response")
    assert await client.batches() == []
    with pytest.raises(TypeError, match="not one string"):
        await client.run([{"context": "やあ", "response": "はい"}])
    with pytest.raises(TypeError, match=r"an item is a mapping, .* not str"):
        await client.run({"items": ITEMS})


async def test_a_body_that_is_too_long_is_refused_with_its_code(client: Any) -> None:
    rating = {"item": "sea-1", "ratings": {"overall": 1}, "comment": "長" * 2000}
    with pytest.raises(saiten.ServiceRefused) as caught:
        await client.add_ratings({**rating, "rater": f"r{number}"} for number in range(2000))
    assert (caught.value.status, caught.value.code) == (413, "body-too-large")


async def test_an_error_of_the_callers_generator_reaches_the_caller(client: Any) -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield make_item(1)
        raise LookupError("the bot is away")

    with pytest.raises(LookupError, match="the bot is away"):
        await client.run(broken())
    assert await client.batches() == []


async def test_runs_that_were_scored_differently_are_not_compared(client: Any) -> None:
    one = await client.run(ITEMS)
    other = await client.run(ITEMS, judge={"samples": 3})
    with pytest.raises(saiten.SignatureMismatch) as caught:
        await client.gate(candidate=one, baseline=other)
    assert caught.value.code == "signature-mismatch"
    assert caught.value.pieces
    assert (await client.gate(candidate=one, baseline=other, allow_signature_mismatch=True)).verdict


async def test_what_is_not_there_is_an_error_with_its_code(client: Any) -> None:
    for asking in (client.batch("ba_0"), client.follow("ba_0"), client.wait("ba_0"), client.results("ba_0")):
        with pytest.raises(saiten.ServiceRefused) as caught:
            await asking
        assert (caught.value.code, caught.value.status) == ("not-found", 404)


async def test_a_cancelled_batch_is_no_run(client: Any) -> None:
    posted = await client.create_batch([make_item(number) for number in range(300)])
    await client.cancel_batch(posted)
    with pytest.raises(saiten.BatchStopped, match="was cancelled after") as caught:
        await client.wait(posted)
    assert caught.value.batch == posted.id


async def test_a_job_that_is_started_again_stores_nothing_twice(client: Any) -> None:
    """As a worker of Ray or Spark that died, of which nobody knows how far it came."""
    items = [make_item(number) for number in range(300)]
    posted = await client.create_batch(items, name="part-3", idempotency_key="job-17/part-3")
    await client.pause_batch(posted)  # as `run` does where it is interrupted
    runs = [await client.run(items, name="part-3", idempotency_key="job-17/part-3") for _ in range(2)]
    assert [run.id for run in runs] == [posted.id, posted.id]
    assert [batch.id for batch in await client.batches()] == [posted.id]

    rating = {"item": "i1", "rater": "r1", "ratings": {"overall": 1}}
    calls = {
        "evaluate": lambda key: client.evaluate(context=CONTEXT, response="いいですね。", idempotency_key=key),
        "round": lambda key: client.open_round(posted, "first", items=2, idempotency_key=key),
        "ratings": lambda key: client.add_ratings([rating], idempotency_key=key),
    }
    for name, call in calls.items():
        assert await call(f"job-17/{name}") == await call(f"job-17/{name}")
    with pytest.raises(saiten.ServiceRefused) as caught:
        await client.run(items[:1], idempotency_key="job-17/part-3")
    assert caught.value.code == "idempotency-key-reused"
    for key in ("", "部分-3", "k" * 256):
        with pytest.raises(ValueError, match="1 to 255 printable ASCII characters"):
            await client.create_batch(items[:1], idempotency_key=key)


async def test_pages_are_followed(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten.client.BATCH_PAGE", 2)
    monkeypatch.setattr("saiten.client.RATING_PAGE", 2)
    monkeypatch.setattr("saiten.client.AUDIT_PAGE", 1)
    posted = [(await client.run(ITEMS[:1])).id for _ in range(5)]
    assert [batch.id for batch in await client.batches()] == posted[::-1]
    await client.add_ratings({"item": "sea-1", "rater": f"r{n}", "ratings": {"overall": 1}} for n in range(5))
    assert [rating.rater for rating in await client.ratings()] == [f"r{n}" for n in range(5)]
    for batch in posted[:3]:
        await client.erase_batch(batch)
    assert [event.target for event in await client.audit()] == posted[2::-1]


async def test_a_key_is_sent_and_a_wrong_one_refused(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, judge="lexical") as service:
        (header,) = await make_keys(tmp_path, ("default", "read"))
        monkeypatch.setenv("SAITEN_URL", str(service.base_url))
        monkeypatch.setenv("SAITEN_API_KEY", header["Authorization"].removeprefix("Bearer "))
        async with client_of(kind, "") as client:
            assert (await client.info()).key["scope"] == "read"
            with pytest.raises(saiten.ServiceRefused) as caught:
                await client.run(ITEMS)
        assert caught.value.status == 403
        async with client_of(kind, "", api_key="wrong") as client:
            with pytest.raises(saiten.ServiceRefused) as caught:
                await client.info()
        assert caught.value.status == 401


@pytest.mark.parametrize("named", [saiten.Client, saiten.AsyncClient])
def test_a_service_must_be_named(named: Any) -> None:
    with pytest.raises(saiten.ServiceUnreachable, match="set SAITEN_URL"):
        named()


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    def describe(owner: type) -> dict[str, str]:
        methods = {name: found for name, found in inspect.getmembers(owner, callable) if not name.startswith("_")}
        return {name: str(inspect.signature(found)).partition(" ->")[0] for name, found in methods.items()}

    blocking, asynchronous = describe(saiten.Client), describe(saiten.AsyncClient)
    assert blocking.pop("close") == asynchronous.pop("aclose")
    assert blocking == asynchronous
    assert all(getattr(saiten.Client, name).__doc__ for name in blocking)


async def test_a_blocking_client_works_inside_a_running_loop(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as service:

        def in_a_notebook() -> str:
            async def cell() -> str:
                with saiten.Client(str(service.base_url)) as client:
                    return client.info().version

            return asyncio.run(cell())

        assert await asyncio.to_thread(in_a_notebook)


async def test_an_iteration_may_be_left(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as service:
        client = saiten.Client(str(service.base_url))
        run = await asyncio.to_thread(client.run, [make_item(number) for number in range(300)])
        assert (await asyncio.to_thread(next, client.results(run))).position == 0
        await asyncio.to_thread(client.close)
        with pytest.raises(RuntimeError, match="this client is closed"):
            client.info()


def test_strings_alternate_and_the_last_is_who_is_answered() -> None:
    assert [one["speaker"] for one in name_speakers(["一", "二", "三"])] == ["A", "B", "A"]
    assert [one["speaker"] for one in name_speakers(["一", "二"])] == ["B", "A"]
    mixed: list[Any] = [{"speaker": "店員", "text": "いらっしゃいませ"}, "こんにちは"]
    assert name_speakers(mixed) == [mixed[0], {"speaker": "A", "text": "こんにちは"}]


async def test_a_long_body_is_kept_in_a_file_and_can_be_sent_again() -> None:
    body = LinesBody({"n": number, "text": "あ" * 1000} for number in range(2000))
    first, second = [b"".join([piece async for piece in body]) for _ in range(2)]
    assert first == second
    assert len(first) == body.length
    assert first.count(b"\n") == 2000
    body.close()


def test_an_answer_of_a_newer_service_is_kept_whole() -> None:
    found = Report.model_validate({"ratings_used": None, "figure": 1.5})
    assert found.model_dump(exclude_unset=True) == {"ratings_used": None, "figure": 1.5}
    with pytest.raises(ValueError, match="frozen"):
        found.figure = 2  # type: ignore[attr-defined]
    names = {"agreement", "correlation", "judges", "hierarchy", "composite-fit", "blend-fit", "win-rates", "corrected"}
    assert set(REPORTS) == names


def test_the_package_is_quick_to_import() -> None:
    code = "import sys, saiten; sys.exit(bool({'httpx', 'pydantic', 'rich', 'asyncio'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_the_client_is_used_as_the_documentation_says(tmp_path: Path) -> None:
    def use(url: str) -> None:
        client = saiten.Client(url)
        result = client.evaluate(context=["こんにちは"], response="こんにちは。", rubric="ja-dialogue")
        assert_type(result, Evaluation)
        items = (make_item(number, context=make_context(number)) for number in range(30))
        run = client.run(items, rubric="ja-dialogue", name="nightly", metadata={"build": "1a2b"}, progress=True)
        assert_type(run, saiten.Run)
        assert run.summary.aspects["coherence"].mean is not None
        assert len(run.to_pandas()) == 30
        report = client.gate(candidate=run, baseline=run.id, rules=[saiten.Rule("overall", max_drop=0.1)])
        assert_type(report.verdict, Literal["pass", "fail", "inconclusive"])
        given = client.gate(candidate=run.results(), baseline={"results": client.results(run)})
        assert given.verdict == client.gate(candidate=run, baseline=run).verdict
        assert [one.item for one in client.results(run, limit=2)] == ["i0", "i1"]
        assert_type(client.results(run), Iterator[ResultRow])
        client.close()

    async with serving(tmp_path, judge="lexical") as service:
        await asyncio.to_thread(use, str(service.base_url))
