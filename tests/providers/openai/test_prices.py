"""The price table and what it makes of tokens."""

import json
from pathlib import Path

import pytest

from saiten_server.core.errors import SettingsInvalid
from saiten_server.providers.openai.prices import read_prices

LUNA = {"input": 1.0, "cached_input": 0.1, "output": 4.0}


def save(folder: Path, **changes: object) -> Path:
    path = folder / "prices.json"
    path.write_text(
        json.dumps({"updated": "2026-01-01", "source": "ours", "models": {"luna": LUNA}} | changes), "utf-8"
    )
    return path


def test_cached_tokens_are_among_the_prompts_and_cheaper(tmp_path):
    prices = read_prices(save(tmp_path))
    # (1000 − 400) · 1.0 + 400 · 0.1 + 50 · 4.0 = 600 + 40 + 200 = 840 millionths of a dollar.
    assert prices.cost("luna", prompt_tokens=1000, cached_tokens=400, completion_tokens=50) == pytest.approx(840e-6)
    # An endpoint that claims more cached tokens than there were: all are cached, none is negative.
    assert prices.cost("luna", prompt_tokens=100, cached_tokens=400, completion_tokens=0) == pytest.approx(10e-6)


def test_tokens_that_were_put_into_the_prompt_cache_have_their_own_price(tmp_path):
    spent = {"prompt_tokens": 1000, "cached_tokens": 400, "completion_tokens": 0}
    dear = read_prices(save(tmp_path, models={"luna": LUNA | {"cache_write": 1.25}}))
    # (1000 − 400 − 500) · 1.0 + 400 · 0.1 + 500 · 1.25 = 100 + 40 + 625 = 765 millionths of a dollar.
    assert dear.cost("luna", **spent, written_tokens=500) == pytest.approx(765e-6)
    # An endpoint that claims more than there were: what is not cached was written, and none is negative.
    assert dear.cost("luna", **spent, written_tokens=5000) == pytest.approx((40 + 600 * 1.25) * 1e-6)
    # A table without such a price: they cost what others do. A price of nothing is one.
    plain = read_prices(save(tmp_path))
    assert plain.cost("luna", **spent, written_tokens=500) == pytest.approx(640e-6)
    free = read_prices(save(tmp_path, models={"luna": LUNA | {"cache_write": 0}}))
    assert free.cost("luna", **spent, written_tokens=500) == pytest.approx(140e-6)


@pytest.mark.parametrize(
    ("model", "known"), [("luna", True), ("luna-2026-09-22", True), ("luna-mini", False), ("", False)]
)
def test_a_dated_name_has_its_familys_price(tmp_path, model, known):
    assert (read_prices(save(tmp_path)).find(model) is not None) == known


def test_the_table_that_ships_knows_the_default_model():
    prices = read_prices()
    # 1 million prompt tokens, half of them cached, and 1 million out: 0.05 + 0.005 + 0.50.
    cost = prices.cost("gpt-6-luna", prompt_tokens=10**6, cached_tokens=5 * 10**5, completion_tokens=10**6)
    assert cost == pytest.approx(0.555)
    assert all(price.cached_input <= price.input <= price.output for price in prices.models.values())
    # OpenAI's guide: from GPT-5.6 on, writing to the prompt cache costs 1.25 times the input.
    assert all(price.cache_write == pytest.approx(1.25 * price.input) for price in prices.models.values())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"models": {"luna": LUNA | {"output": -1}}}, "models.luna.output"),
        ({"models": {"luna": {}}}, "models.luna.input"),
        ({"more": 1}, "more"),
    ],
)
def test_a_broken_table_is_refused_with_its_place(tmp_path, changes, words):
    with pytest.raises(SettingsInvalid, match=words):
        read_prices(save(tmp_path, **changes))


def test_a_missing_table_is_refused(tmp_path):
    with pytest.raises(SettingsInvalid, match=r"none\.json"):
        read_prices(tmp_path / "none.json")
