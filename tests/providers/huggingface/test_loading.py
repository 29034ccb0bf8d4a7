"""Loading around a body of the test's own."""

import logging
from importlib.util import find_spec
from pathlib import Path

import pytest

from saiten_server.providers.huggingface import ModelChoice, ModelKind, ModelSource, choose_threads, loading, read_quota
from saiten_server.providers.ports import EncoderUnavailable
from tests.support.faults import words

pytestmark = pytest.mark.skipif(
    any(find_spec(package) is None for package in ("torch", "transformers")), reason="the bertscore extra is absent"
)


class Unavailable(EncoderUnavailable):
    """The kind's own."""


KIND = ModelKind(words("model"), words("to test"), (), Unavailable)


def choose(name: str, device: str | None = "cpu", threads: int | None = None) -> ModelChoice:
    return ModelChoice(name=name, device=device, threads=threads, hub_timeout_seconds=1.0)


def test_gives_source_and_device_and_sets_the_threads(tmp_path: Path) -> None:
    import torch

    before = torch.get_num_threads()
    with loading(KIND, choose(str(tmp_path), threads=before + 1)) as (source, device):
        assert (source, device) == (ModelSource(str(tmp_path), tmp_path, local=True), "cpu")
        assert torch.get_num_threads() == before + 1
    with loading(KIND, choose(str(tmp_path), device=None, threads=before)) as (_, device):
        assert device == ("cuda" if torch.cuda.is_available() else "cpu")
    with loading(KIND, choose(str(tmp_path))):
        assert torch.get_num_threads() == min(before, read_quota() or before)


def test_a_thread_a_core_that_the_cgroup_has_and_no_more_than_pytorch_takes() -> None:
    assert choose_threads(None, 16, None) == 16
    assert choose_threads(None, 16, 2) == 2
    assert choose_threads(None, 2, 16) == 2
    assert choose_threads(8, 16, 2) == 8


def test_transformers_is_quiet_inside_and_as_before_afterwards(tmp_path: Path) -> None:
    from transformers.utils import logging as transformers_logging

    def read() -> tuple[int, bool]:
        return transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()

    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_info()
    transformers_logging.enable_progress_bar()
    with loading(KIND, choose(str(tmp_path))):
        assert read() == (logging.ERROR, False)
    assert read() == (logging.INFO, True)
    with pytest.raises(Unavailable), loading(KIND, choose(str(tmp_path))):
        raise ValueError
    assert read() == (logging.INFO, True)
    transformers_logging.set_verbosity(before)


def test_the_kinds_own_exception_passes_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Unavailable, match=r"^it reads ahead$"), loading(KIND, choose(str(tmp_path))):
        raise Unavailable(words("it reads ahead"))
    assert caplog.records == []


def test_anything_else_is_explained_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    choice = choose(str(tmp_path / "tiny"))
    (tmp_path / "tiny").mkdir()
    with (
        pytest.raises(
            Unavailable, match=r"^model tiny could not be loaded \(ValueError; the log says more\)$"
        ) as raised,
        loading(KIND, choice),
    ):
        raise ValueError(f"{tmp_path} is broken")
    assert isinstance(raised.value.__cause__, ValueError)
    (record,) = caplog.records
    assert (record.message, record.exc_info is None) == ("model tiny could not be loaded", False)


def test_goes_no_further_where_the_extra_is_missing(tmp_path: Path) -> None:
    kind = ModelKind(words("model"), words("to test"), ("no_such_package",), Unavailable)
    with pytest.raises(Unavailable, match="no_such_package not installed"), loading(kind, choose(str(tmp_path))):
        pytest.fail("went in")
