"""From an encoder's name or folder to a loaded encoder. Everything here may take minutes: never on the event loop."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.adapters.bertscore.encoding import LoadedEncoder
from app.adapters.bertscore.identity import digest_folder, identify, shorten_commit
from app.adapters.bertscore.layers import choose_layer, cut
from app.adapters.bertscore.tokens import Tokenizing, find_max_tokens
from app.ports import EncoderUnavailable

logger = logging.getLogger(__name__)
_T5_KINDS = frozenset({"t5", "mt5"})
_PROBE = "1"
_WEIGHTS = frozenset(
    f"{file}{index}" for file in ("model.safetensors", "pytorch_model.bin") for index in ("", ".index.json")
)
_TOKENIZERS = frozenset(
    {"tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "spm.model"}
)


@dataclass(frozen=True)
class EncoderChoice:
    """`name` is a Hugging Face name or a local folder; `layer` None takes bert-score's choice for that name, else the
    last; `device` None takes CUDA where there is one; `threads` None leaves PyTorch's process-wide number alone."""

    name: str
    layer: int | None
    device: str | None
    threads: int | None
    max_batch_tokens: int
    hub_timeout_seconds: float


def require_installed() -> None:
    """Raises EncoderUnavailable where the extra is not installed. Imports nothing."""
    missing = [package for package in ("torch", "transformers", "bert_score") if find_spec(package) is None]
    if missing:
        raise EncoderUnavailable(f"install saiten[bertscore] to compare texts ({', '.join(missing)} not installed)")


def choose_default(language: str) -> str:
    """The encoder that bert-score takes for the language (BCP 47; the subtags after the first do not count)."""
    require_installed()
    from bert_score.utils import lang2model

    return str(lang2model[language.lower().split("-")[0]])


def load_encoder(choice: EncoderChoice) -> LoadedEncoder:
    """Loads tokenizer and weights, in float32, cut after the layer.

    Raises:
        EncoderUnavailable: extra not installed, folder absent or broken, hub out of reach, layer out of range.
    """
    require_installed()
    shown = Path(choice.name).name
    try:
        with _quiet_transformers():
            return _load(choice)
    except EncoderUnavailable:
        raise
    except Exception as error:  # the tokenizers library raises bare Exception for a broken file
        logger.warning("encoder %s could not be loaded", shown, exc_info=True)
        raise EncoderUnavailable(_explain(shown, error)) from error


def _load(choice: EncoderChoice) -> LoadedEncoder:
    import torch
    from transformers import AutoConfig, AutoTokenizer

    if choice.threads is not None:
        torch.set_num_threads(choice.threads)
    device = choice.device or ("cuda" if torch.cuda.is_available() else "cpu")
    folder, source = _locate(choice)
    config = AutoConfig.from_pretrained(**source)
    tokenizer = AutoTokenizer.from_pretrained(**source, use_fast=False)  # as bert-score asks for it
    whole, missing = _load_weights(config, source)
    layer = choose_layer(choice.name, choice.layer, config)
    model = cut(whole, layer)
    _refuse_untrained(choice.name, missing, model)
    revision = digest_folder(folder) if folder else shorten_commit(_find_snapshot(choice.name).name)
    encoder = LoadedEncoder(
        model.to(device),
        Tokenizing(tokenizer, find_max_tokens(tokenizer, model)),
        identity=identify(choice.name, layer, revision, tokenizer),
        device=device,
        max_batch_tokens=choice.max_batch_tokens,
    )
    encoder.compare([(_PROBE, _PROBE)])  # an encoder that cannot run is not available
    return encoder


def _locate(choice: EncoderChoice) -> tuple[Path | None, dict[str, Any]]:
    """The local folder, if it is one, and the arguments that load from there. What the hub's cache holds whole is
    taken from it; otherwise the hub is asked once, under a time limit, before transformers retries for 20 s a file."""
    folder = Path(choice.name).expanduser()
    if folder.is_dir():
        return folder, {"pretrained_model_name_or_path": str(folder), "local_files_only": True}
    if choice.name.startswith(("/", ".", "~")) or choice.name.count("/") > 1:
        raise EncoderUnavailable(f"the encoder's folder {folder.name} does not exist")
    snapshot = _find_snapshot(choice.name)
    cached = _is_whole(snapshot)
    if not cached:
        _ask_hub(choice.name, choice.hub_timeout_seconds)
    return None, {"pretrained_model_name_or_path": choice.name, "local_files_only": cached}


def _find_snapshot(name: str) -> Path:
    """Where the hub's cache keeps the encoder's files: a folder that is named by their commit. It need not exist."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(name, "config.json")
    return Path(path).parent if isinstance(path, str) else Path("unknown")


def _is_whole(snapshot: Path) -> bool:
    files = {path.name for path in snapshot.iterdir()} if snapshot.is_dir() else set()
    return not _WEIGHTS.isdisjoint(files) and not _TOKENIZERS.isdisjoint(files)


def _ask_hub(name: str, timeout_seconds: float) -> None:
    """Raises EncoderUnavailable where the hub is silent or does not have the encoder."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        HfApi().model_info(name, timeout=timeout_seconds)
    except RepositoryNotFoundError as error:
        raise EncoderUnavailable(f"the Hugging Face hub has no public encoder {name}") from error
    except Exception as error:  # requests', httpx's or httpx2's, as the hub's version has it
        reason = f"encoder {name} is no local folder, not in the cache, and the Hugging Face hub is not reachable"
        raise EncoderUnavailable(reason) from error


def _load_weights(config: Any, source: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The whole model in float32 and those of its parameters that the checkpoint did not have.

    float32 because in half precision a similarity would depend, in the third digit, on what it is encoded with.
    """
    import torch
    from transformers import AutoModel, T5EncoderModel

    kind = T5EncoderModel if config.model_type in _T5_KINDS else AutoModel
    model, report = kind.from_pretrained(**source, dtype=torch.float32, output_loading_info=True)
    parameters = dict(model.named_parameters())
    missing = [parameters[key] for key in report["missing_keys"] if key in parameters and "pooler" not in key]
    return model, missing


def _refuse_untrained(name: str, missing: list[Any], model: Any) -> None:
    """transformers fills weights that a checkpoint lacks at random and only warns."""
    used = {id(parameter) for parameter in model.parameters()}
    lacking = sum(id(parameter) in used for parameter in missing)
    if lacking:
        raise EncoderUnavailable(f"the files of encoder {Path(name).name} lack {lacking} of its weights")


def _explain(shown: str, error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"encoder {shown} needs a package that is not installed ({error.name or str(error).splitlines()[0]})"
    if isinstance(error, MemoryError):
        return f"encoder {shown} does not fit in memory"
    return f"encoder {shown} could not be loaded ({type(error).__name__}; the log says more)"


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """No progress bars and load reports on standard error, which is the command line's."""
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    shows_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if shows_bars:
            transformers_logging.enable_progress_bar()
