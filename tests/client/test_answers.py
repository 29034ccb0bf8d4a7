"""The models of answers, which are generated."""

from benchmarks import answers


def test_they_are_as_the_document_says() -> None:
    assert answers.FILE.read_text(encoding="utf-8") == answers.render(), "run `make pages`"
