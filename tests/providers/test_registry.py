"""Which provider the settings mean, what is said where they do not say it clearly, and how one adds another."""

import sys
from pathlib import Path

import pytest

import saiten_server.providers
from saiten_server.core.errors import SettingsInvalid
from saiten_server.platform.settings import Settings, read_settings
from saiten_server.providers import registry
from saiten_server.providers.registry import find_encoder, find_judge, find_translator, is_baseline, judge_names


def test_nothing_set_is_the_baseline() -> None:
    found = find_judge(read_settings())
    assert (found.name, found.baseline) == ("lexical", True)
    found.check(read_settings())


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "OPENAI_BASE_URL"])
def test_a_key_or_an_address_chooses_openai(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:11434/v1")
    settings = read_settings()
    found = find_judge(settings)
    assert (found.name, found.baseline) == ("openai", False)
    found.check(settings)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"OPENAI_API_KEY": ""}, "OPENAI_API_KEY is set but empty"),
        ({"OPENAI_API_KEY": " "}, "OPENAI_API_KEY is set but empty"),
        ({"OPENAI_API_KEY": "", "SAITEN_JUDGE": "openai"}, "OPENAI_API_KEY is set but empty"),
        ({"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "http://h/v1"}, "OPENAI_API_KEY is set but empty"),
        ({"SAITEN_JUDGE": "openai"}, "SAITEN_JUDGE=openai is set, but neither OPENAI_API_KEY nor OPENAI_BASE_URL"),
        ({"SAITEN_MODEL": "qwen3"}, "SAITEN_MODEL is set, but neither OPENAI_API_KEY nor OPENAI_BASE_URL"),
    ],
)
def test_a_lost_secret_never_chooses_lexical(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = read_settings()
    with pytest.raises(SettingsInvalid, match=words):
        find_judge(settings).check(settings)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "SAITEN_MODEL"])
def test_lexical_by_name_asks_for_nothing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("SAITEN_JUDGE", "lexical")
    monkeypatch.setenv(name, "")
    find_judge(read_settings()).check(read_settings())


def test_lexical_may_be_chosen_although_there_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("SAITEN_JUDGE", "lexical")
    assert find_judge(read_settings()).name == "lexical"


def test_an_unknown_judge_is_named_with_the_one_that_is_near() -> None:
    with pytest.raises(SettingsInvalid, match=r"^SAITEN_JUDGE: there is no judge lexcal \(is lexical meant\?\)"):
        find_judge(Settings(judge="lexcal"))
    with pytest.raises(SettingsInvalid, match=r"no judge g\s?pt; known: lexical, local, openai"):
        find_judge(Settings(judge="g\npt"))


def test_a_judge_that_is_not_registered_is_no_baseline() -> None:
    assert [is_baseline(kind) for kind in ("lexical", "openai", "of-last-year", "")] == [True, False, False, False]


def test_a_translator_and_an_encoder_are_those_that_the_settings_want() -> None:
    assert find_translator(Settings()) is None
    found = find_translator(Settings(deepl_api_key="any"))
    assert found is not None
    assert found.name == "deepl"
    encoder = find_encoder(Settings())
    assert encoder is not None
    assert encoder.name == "bertscore"
    assert find_encoder(Settings(encoder="off")) is None


MODULE = """
from saiten_server.providers.registry import judge

@judge("mine", wanted=lambda settings: settings.model == "mine-1")
def open_mine(settings, calls, flow):
    return "my judge"
"""


def test_one_module_with_one_decorated_function_adds_a_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.setattr(saiten_server.providers, "__path__", [*saiten_server.providers.__path__, str(tmp_path)])
    monkeypatch.setattr(registry, "JUDGES", {})
    known = [name for name in sys.modules if name.startswith("saiten_server.providers.") and name.count(".") == 2]
    for name in known:
        if name.rpartition(".")[2] not in {"ports", "registry"}:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "saiten_server.providers.mine", raising=False)
    registry.load_providers.cache_clear()
    try:
        assert judge_names() == ["lexical", "local", "mine", "openai", "relay"]
        assert find_judge(Settings(judge="mine")).open(Settings(), None, None) == "my judge"  # type: ignore[arg-type, comparison-overlap]
        assert find_judge(Settings(model="mine-1")).name in {"mine", "openai"}
    finally:
        sys.modules.pop("saiten_server.providers.mine", None)


@pytest.mark.parametrize(
    ("variables", "described"),
    [
        ({}, "lexical"),
        ({"SAITEN_JUDGE": "lexical", "OPENAI_BASE_URL": "http://gpu:8000/v1"}, "lexical"),
        ({"OPENAI_API_KEY": "sk-1"}, "openai"),
        ({"OPENAI_BASE_URL": "http://user:secret@gpu:8000/v1?key=sk-1"}, "openai at gpu:8000"),
    ],
)
def test_a_judge_is_described_with_its_host_and_without_a_secret(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], described: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = read_settings()
    assert find_judge(settings).describe(settings) == described
