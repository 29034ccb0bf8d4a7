"""Two batches side by side: the figures of the interface's own comparison and gate, of one reading."""

import pytest

from saiten_server.comparison.requests import ComparisonRequest, GateRequest
from saiten_server.comparison.values import asked_of, attach_states
from saiten_server.core.errors import NotFound, SignatureMismatch, UnknownRubric
from tests.support.bench import Bench
from tests.support.scored_batches import SIGNATURE, score_batch

BEFORE: dict[str, list[int | None]] = {"warmth": [0, 1, 1, 0, 1, 1], "clarity": [1, 2, 3, 3, 2, 3]}
AFTER: dict[str, list[int | None]] = {"warmth": [0, 1, 0, 1, 1, None], "clarity": [1, 2, 1, 3, 3, 3]}


async def test_it_says_what_comparison_and_gate_say(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", BEFORE, blend=0.25)
    await score_batch(bench.batches, "ba_2", AFTER, blend=0.5)
    found = await bench.comparison.examine("team", ("ba_1", "ba_2"), alpha=0.1)
    # The page attaches the states of the judge.
    states = await bench.reliabilities.states("team", {SIGNATURE}, asked_of(found.gate))
    gate = attach_states(found.gate, states)
    assert gate == await bench.comparison.gate("team", GateRequest(baseline="ba_1", candidate="ba_2", alpha=0.1))
    compared = await bench.comparison.compare("team", ComparisonRequest(baseline="ba_1", candidate="ba_2", alpha=0.1))
    assert (found.comparison, gate.comparison) == (found.gate.comparison, compared)


async def test_each_batch_is_read_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await score_batch(bench.batches, "ba_1", BEFORE)
    await score_batch(bench.batches, "ba_2", AFTER)
    frames = bench.comparison.runs.frames
    read, read_frame = [], frames.read_frame

    async def watch(project: str, batch_id: str):
        read.append(batch_id)
        return await read_frame(project, batch_id)

    monkeypatch.setattr(frames, "read_frame", watch)
    await bench.comparison.examine("team", ("ba_1", "ba_2"))
    assert read == ["ba_1", "ba_2"]
    read.clear()
    await bench.comparison.examine("team", ("ba_1", "ba_1"))
    assert read == ["ba_1"]


async def test_what_cannot_be_compared_is_refused(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", BEFORE)
    await score_batch(bench.batches, "ba_2", AFTER, signature=SIGNATURE.replace("lexical-1", "lexical-2"))
    await score_batch(bench.batches, "ba_3", BEFORE, rubric="gone")
    with pytest.raises(SignatureMismatch):
        await bench.comparison.examine("team", ("ba_1", "ba_2"))
    allowed = await bench.comparison.examine("team", ("ba_1", "ba_2"), allow_signature_mismatch=True)
    assert list(allowed.comparison.signature_differences) == ["model"]
    with pytest.raises(UnknownRubric):
        await bench.comparison.examine("team", ("ba_1", "ba_3"))
    for project, baseline in (("rivals", "ba_1"), ("team", "ba_9")):
        with pytest.raises(NotFound):
            await bench.comparison.examine(project, (baseline, "ba_1"))
