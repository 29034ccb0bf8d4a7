"""`saiten analyze --batch`: results and human ratings of a running service, and of the database here."""

import json
from pathlib import Path

import httpx
import pytest

from tests.support.command import saiten, served
from tests.support.posted import NDJSON, make_body, wait_for
from tests.support.waiting import LIMIT_SECONDS

HUMAN = ((1, 2), (2, 2), (3, 1))
"""Two raters' naturalness of three items."""


async def rate_batch(url: str) -> str:
    """The id of a finished batch of three items with the ratings of HUMAN."""
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT_SECONDS) as client:
        accepted = (await client.post("/v1/batches", json=make_body(3, rubric="ja-dialogue"))).json()
        batch: str = accepted["id"]
        await wait_for(client, batch)
        ratings = [
            {"item": f"i{number}", "batch": batch, "rater": f"R{rater}", "ratings": {"naturalness": value}}
            for number, row in enumerate(HUMAN)
            for rater, value in enumerate(row)
        ]
        body = "".join(json.dumps(rating) + "\n" for rating in ratings)
        answer = await client.post("/v1/ratings", content=body, headers=NDJSON)
        answer.raise_for_status()
    return batch


async def test_a_batch_is_analysed_there_and_here_alike(tmp_path: Path) -> None:
    with served(tmp_path) as (url, _):
        batch = await rate_batch(url)
        there = saiten("analyze", "agreement", "--batch", batch, "--url", url, "--json", folder=tmp_path)
        assert there.returncode == 0, there.stderr
        refused = saiten("analyze", "agreement", "--batch", "ba_none", "--url", url, folder=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "saiten: there is no batch ba_none in this project\n"
    # The service is gone; its database is still here.
    here = saiten("analyze", "agreement", "--batch", batch, "--json", folder=tmp_path)
    assert json.loads(here.stdout) == json.loads(there.stdout)
    aspect = json.loads(here.stdout)["aspects"]["naturalness"]
    # Item means 1.5, 2, 2; (−1, 0, 1) against (⅓, ⅓, −⅔) gives −1 / √(2 · 2/3).
    assert (aspect["n"], aspect["raters"]) == (3, 2)
    assert aspect["mean"] == pytest.approx(5.5 / 3)
    assert aspect["pearson"] == pytest.approx(-1 / (4 / 3) ** 0.5)
    table = saiten("analyze", "agreement", "--batch", batch, folder=tmp_path)
    assert "agreement: 3 items, 1 system, 2 named raters" in table.stdout


def test_batches_that_cannot_be_analysed(tmp_path: Path) -> None:
    unknown = saiten("analyze", "win-rates", "--batch", "ba_none", folder=tmp_path)
    assert (unknown.returncode, unknown.stderr) == (2, "saiten: there is no batch ba_none in this project\n")
    nobody = saiten("analyze", "win-rates", "--batch", "ba_1", "--url", "http://127.0.0.1:9", folder=tmp_path)
    assert nobody.returncode == 3
    assert "no service answers at http://127.0.0.1:9" in nobody.stderr
