"""What the judge says of texts that address it, from the request to the stored result."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from saiten_server.judging.prompt import SCREEN
from tests.support.fake_openai import Answer, FakeOpenAI, Request, complete, verdict_of
from tests.support.serving import serving

BODY = {"context": [{"speaker": "A", "text": "おはよう。"}], "response": "おはよう。", "relevance": None}


def suspect(request: Request) -> Answer:
    """Says of every dialogue that is asked about that it addresses its evaluator."""
    verdict = json.loads(verdict_of(request))
    return complete(request, json.dumps({name: name == SCREEN or value for name, value in verdict.items()}))


@pytest.mark.parametrize("integrity", ["flag", "refuse", "judge-twice"])
async def test_the_judges_suspicion_is_a_warning_and_no_policy_acts_on_it(tmp_path: Path, integrity: str) -> None:
    async with (
        FakeOpenAI(suspect) as fake,
        serving(tmp_path, judge="openai", openai_api_key="k", openai_base_url=fake.base_url) as client,
    ):
        found: dict[str, Any] = {}
        for screen in (None, False):
            body = {**BODY, "integrity": integrity, "judge": {} if screen is None else {"screen": screen}}
            response = await client.post("/v1/evaluations", json=body)
            assert response.status_code == 200, response.text
            found[str(screen)] = response.json()
        screened, plain = found["None"], found["False"]
        assert [(each["code"], each["where"]) for each in screened["warnings"]] == [("suspected-injection", "verdict")]
        assert (screened["judge"]["screen"], screened["signature_pieces"]["screen"]) == (True, "yes")
        assert "|screen:yes|" in screened["signature"]
        assert plain["warnings"] == []
        assert (plain["judge"]["screen"], "screen" in plain["signature_pieces"]) == (False, False)
        assert screened["aspects"] == plain["aspects"]
        assert screened["integrity"] is None
        assert len(fake.requests) == 2
        stored = (await client.get(f"/v1/evaluations/{screened['id']}?include=trace")).json()
        assert stored["warnings"] == screened["warnings"]
        page = await client.get(f"/evaluations/{screened['id']}")
        assert "Place: The judge&#39;s reply" in " ".join(re.sub(r"<[^>]*>", "", page.text).split())
