import importlib.util
from pathlib import Path

PATH = Path(__file__).parents[1] / "scripts" / "check_words.py"
spec = importlib.util.spec_from_file_location("check_words", PATH)
assert spec is not None
assert spec.loader is not None
check_words = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_words)

WORDS = check_words.read_list("# a comment\n\nreckon(?:s|ed)?\testimate\nnobody\tno one\n")


def found_in(text: str) -> list[tuple[int, str, str]]:
    return list(check_words.find_words(text, WORDS))


def test_words_are_found_with_their_line_and_replacement() -> None:
    text = "Nobody knows.\n\nfine\ndef reckoned_cost(): ..."
    assert found_in(text) == [(1, "Nobody", "no one"), (4, "reckoned", "estimate")]


def test_a_word_within_a_longer_one_is_not_found() -> None:
    assert found_in("Dead reckoning, reckonable, Somenobody") == []


def test_a_percent_sign_after_a_space_is_found() -> None:
    words = check_words.read_list(check_words.LIST.read_text(encoding="utf-8"))
    for text in ("a 95 % interval", "差の {percent:g} % 区間", "80 %로", "(97.5 %)", "by 5 %"):
        assert [found[1] for found in check_words.find_words(text, words)] == [" %"], text
    for text in ("a 95% interval", "{% if runs|length > 1 %}", "own // 3 % size", "{last} %{name}"):
        assert not list(check_words.find_words(text, words)), text


def test_every_line_of_the_list_has_a_replacement() -> None:
    words = check_words.read_list(check_words.LIST.read_text(encoding="utf-8"))
    assert len(words) >= 10
    assert all(replacement for _, replacement in words)


def test_data_and_translations_are_left_out() -> None:
    names = {path.relative_to(check_words.ROOT).as_posix() for path in check_words.find_files(check_words.ROOT)}
    assert {"README.md", "app/cli/serve.py", "client/saiten/connection.py", "docs/gate.md", "Makefile"} <= names
    assert not any(name.startswith("app/") and "/locales/" in name for name in names)
    assert "CHANGELOG.md" not in names
    assert "scripts/words_to_avoid.txt" not in names
