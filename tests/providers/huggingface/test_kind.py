"""What is said where a model cannot be had."""

import pytest

from saiten_server.providers.huggingface import ModelKind
from saiten_server.providers.ports import EncoderUnavailable
from tests.support.faults import words


class Unavailable(EncoderUnavailable):
    """The kind's own."""


def build(*packages: str) -> ModelKind:
    return ModelKind(words("model"), words("to test"), packages, Unavailable)


def test_names_the_packages_that_are_missing() -> None:
    with pytest.raises(
        Unavailable, match=r"^install saiten-server\[bertscore\] to test \(no_such_one, nor_this not installed\)$"
    ):
        build("no_such_one", "json", "nor_this").require_installed()
    build("json").require_installed()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            ModuleNotFoundError("No module named 'fugashi'", name="fugashi"),
            "needs a package that is not installed (fugashi)",
        ),
        (
            ImportError("\nT5Tokenizer requires SentencePiece.\nInstall it."),
            "needs a package that is not installed (T5Tokenizer requires SentencePiece.)",
        ),
        (ImportError(), "needs a package that is not installed (the log says which)"),
        (MemoryError(), "does not fit in memory"),
        (OSError("/home/of/somebody is broken"), "could not be loaded (OSError; the log says more)"),
    ],
)
def test_explains_in_one_line_without_a_path(error: Exception, reason: str) -> None:
    assert str(build().explain("tiny", error)) == f"model tiny {reason}"
