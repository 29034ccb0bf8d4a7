"""Where a model is taken from: folder, cache or hub, and what is said where it is in none."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from saiten_server.providers.huggingface import ModelKind, ModelSource, digest_folder, is_whole, locate_model
from saiten_server.providers.ports import EncoderUnavailable
from tests.support.faults import words

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "some-owner/some-model"
NOT_REACHABLE = f"model {NAME} is no local folder, not in the cache, and the Hugging Face hub is not reachable"

needs_hub = pytest.mark.skipif(find_spec("huggingface_hub") is None, reason="the bertscore extra is not installed")


class Unavailable(EncoderUnavailable):
    """The kind's own."""


KIND = ModelKind(words("model"), words("to test"), (), Unavailable)


def write(folder: Path, *files: str) -> Path:
    """Each file holds its own name; an index, beside weights of that name, lists two parts."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        weights, is_index, _ = file.partition(".index.json")
        parts = {"a": f"1-of-2.{weights}", "b": f"2-of-2.{weights}", "c": f"2-of-2.{weights}"}
        (folder / file).write_text(json.dumps({"weight_map": parts}) if is_index else file, encoding="utf-8")
    return folder


class Hub:
    """Answers `status` whatever model it is asked for, and keeps what that was."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status = 404
        self.body = json.dumps({"id": NAME}).encode()

    @contextmanager
    def serve(self) -> Iterator[str]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/api/models/"):  # the library may ask for things of its own
                    hub.asked.append(self.path)
                self.send_response(hub.status)
                if hub.status == 404:
                    self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(hub.body)))
                self.end_headers()
                self.wfile.write(hub.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
                """Keeps standard error clean."""

        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()
            thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The snapshot of NAME in a hub's cache of this test's own; it is not there yet."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / f"models--{NAME.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    return repository / "snapshots" / COMMIT


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    import huggingface_hub.constants

    hub = Hub()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    huggingface_hub.close_session()  # it keeps the proxies that it was opened with
    with hub.serve() as url:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
        yield hub
        huggingface_hub.close_session()


@needs_hub
class TestLocate:
    def test_takes_a_folder_and_never_runs_its_code(self, tmp_path: Path) -> None:
        source = locate_model(KIND, str(tmp_path), 1.0)
        assert source == ModelSource(str(tmp_path), tmp_path, local=True)
        assert source.arguments == {
            "pretrained_model_name_or_path": str(tmp_path),
            "local_files_only": True,
            "trust_remote_code": False,
        }

    @pytest.mark.parametrize("name", ["/nowhere/gone", "./gone", "~/no/such/gone", "a/b/gone"])
    def test_what_can_only_be_a_folder_is_not_asked_for(self, name: str, hub: Hub) -> None:
        with pytest.raises(Unavailable, match=r"^the model's folder gone does not exist$"):
            locate_model(KIND, name, 1.0)
        assert hub.asked == []

    def test_refuses_what_is_no_name(self, hub: Hub) -> None:
        with pytest.raises(Unavailable, match=r"^model no name! is neither a folder nor a Hugging Face name$"):
            locate_model(KIND, "no name!", 1.0)
        assert hub.asked == []

    def test_what_the_cache_holds_whole_is_not_asked_for(self, cache: Path, hub: Hub) -> None:
        write(cache, "config.json", "tokenizer.json", "model.safetensors")
        source = locate_model(KIND, NAME, 1.0)
        assert source == ModelSource(NAME, None, local=True)
        assert source.arguments == {
            "pretrained_model_name_or_path": NAME,
            "local_files_only": True,
            "trust_remote_code": False,
        }
        assert source.find_revision() == "0123456789ab"
        assert hub.asked == []

    def test_what_only_the_hub_has_is_taken_from_it(self, cache: Path, hub: Hub) -> None:
        hub.status = 200
        write(cache, "config.json", "model.safetensors")
        source = locate_model(KIND, NAME, 1.0)
        assert source == ModelSource(NAME, None, local=False)
        assert source.arguments["local_files_only"] is False
        assert hub.asked == [f"/api/models/{NAME}"]

    @pytest.mark.parametrize("files", [(), ("config.json",), ("config.json", "tokenizer.json")])
    def test_asks_once_for_what_the_cache_lacks(self, files: tuple[str, ...], cache: Path, hub: Hub) -> None:
        write(cache, *files)
        with pytest.raises(Unavailable, match=f"^the Hugging Face hub has no public model {NAME}$"):
            locate_model(KIND, NAME, 1.0)
        assert hub.asked == [f"/api/models/{NAME}"]

    def test_a_hub_that_fails_is_not_reachable(self, cache: Path, hub: Hub) -> None:
        hub.status = 500
        with pytest.raises(Unavailable, match=f"^{NOT_REACHABLE}$"):
            locate_model(KIND, NAME, 1.0)
        assert len(hub.asked) == 1

    def test_a_network_that_wants_a_login_first_does_not_reach_the_hub(self, cache: Path, hub: Hub) -> None:
        hub.status, hub.body = 200, b"<html>Please log in</html>"
        with pytest.raises(Unavailable, match=f"^{NOT_REACHABLE}$"):
            locate_model(KIND, NAME, 1.0)

    def test_a_hub_where_nobody_answers_is_not_reachable(
        self, cache: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import huggingface_hub.constants

        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))  # and does not listen
            monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
            with pytest.raises(Unavailable, match=f"^{NOT_REACHABLE}$"):
                locate_model(KIND, NAME, 1.0)

    def test_a_hub_that_is_switched_off_is_not_reachable(
        self, cache: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import huggingface_hub.constants

        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(Unavailable, match=f"^{NOT_REACHABLE}$"):
            locate_model(KIND, NAME, 1.0)
        assert hub.asked == []

    def test_a_defect_is_not_blamed_on_the_network(self, cache: Path, hub: Hub) -> None:
        # The library unpacks an object, whatever came: no sentence of ours would be true of that.
        hub.status, hub.body = 200, b"[]"
        with pytest.raises(TypeError):
            locate_model(KIND, NAME, 1.0)

    def test_without_a_snapshot_the_revision_is_unknown(self, cache: Path) -> None:
        assert ModelSource(NAME, None, local=False).find_revision() == "unknown"


@pytest.mark.parametrize(
    ("files", "whole"),
    [
        (("vocab.txt", "model.safetensors"), True),
        (("spiece.model", "pytorch_model.bin"), True),
        (("vocab.txt",), False),
        (("model.safetensors",), False),
        (("vocab.txt", "model.safetensors.index.json"), False),
        (("vocab.txt", "model.safetensors.index.json", "1-of-2.model.safetensors"), False),
        (
            (
                "tokenizer.model",
                "model.safetensors.index.json",
                "1-of-2.model.safetensors",
                "2-of-2.model.safetensors",
            ),
            True,
        ),
        (("vocab.txt", "pytorch_model.bin.index.json", "1-of-2.pytorch_model.bin", "2-of-2.pytorch_model.bin"), True),
        (("vocab.txt", "model.safetensors.index.json", "pytorch_model.bin"), True),
        (("vocab.txt", "model.safetensors", "model.safetensors.index.json"), True),
        (("vocab.txt", "training_args.bin"), False),
    ],
)
def test_whole_is_a_vocabulary_and_all_weights(files: tuple[str, ...], whole: bool, tmp_path: Path) -> None:
    assert is_whole(write(tmp_path, "config.json", *files)) is whole


def test_a_link_into_nowhere_is_no_file(tmp_path: Path) -> None:
    """The hub's cache consists of links."""
    write(tmp_path, "vocab.txt")
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "gone")
    assert not is_whole(tmp_path)


def test_the_digest_is_of_names_and_contents_that_count(tmp_path: Path) -> None:
    # { printf 'config.json\0'; printf config.json | sha256sum | cut -c-64; } | sha256sum | cut -c-12
    plain = digest_folder(write(tmp_path / "plain", "config.json"))
    assert plain == "b3262c038a91"
    same = write(tmp_path / "elsewhere", "config.json", "README.md", ".gitattributes", "tf_model.h5", "model.onnx")
    (same / "onnx").mkdir()
    assert digest_folder(same) == plain
    (same / "config.json").rename(same / "other.json")
    renamed = digest_folder(same)
    (same / "other.json").write_text("changed", encoding="utf-8")
    assert len({plain, renamed, digest_folder(same), digest_folder(write(same, "vocab.txt"))}) == 4
    assert ModelSource(str(same), same, local=True).find_revision() == digest_folder(same)
