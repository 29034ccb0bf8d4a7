"""From a language model's name or folder to a loaded one. Everything here may take minutes: never on the event loop."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.adapters.bertscore.identity import digest_folder, shorten_commit
from app.adapters.causallm.reading import LoadedModel
from app.adapters.causallm.window import find_window
from app.metric_ports import MetricUnavailable, Passage

logger = logging.getLogger(__name__)

PROBE = Passage("1 2")
SMALLEST_VOCABULARY = 4
"""As many tokens as the probe for causality needs."""


@dataclass(frozen=True)
class ModelChoice:
    """`name` is a Hugging Face name or a local folder; `device` None takes CUDA where there is one; `threads` None
    leaves PyTorch's process-wide number alone; `max_tokens` bounds the window."""

    name: str
    device: str | None
    threads: int | None
    max_tokens: int
    hub_timeout_seconds: float


def require_installed() -> None:
    """Raises MetricUnavailable where the extra is not installed. Imports nothing."""
    missing = [package for package in ("torch", "transformers") if find_spec(package) is None]
    if missing:
        raise MetricUnavailable(f"install saiten[bertscore] for perplexities ({', '.join(missing)} not installed)")


def load_model(choice: ModelChoice) -> LoadedModel:
    """Loads tokenizer and weights, in float32. Code that comes with a model is never run.

    Raises:
        MetricUnavailable: extra not installed, folder absent or broken, hub out of reach, no causal language model.
    """
    require_installed()
    shown = Path(choice.name).name
    try:
        with _quiet_transformers():
            return _load(choice)
    except MetricUnavailable:
        raise
    except Exception as error:  # the tokenizers library raises bare Exception for a broken file
        logger.warning("language model %s could not be loaded", shown, exc_info=True)
        raise MetricUnavailable(_explain(shown, error)) from error


def _load(choice: ModelChoice) -> LoadedModel:
    import torch
    from transformers import AutoTokenizer

    if choice.threads is not None:
        torch.set_num_threads(choice.threads)
    device = choice.device or ("cuda" if torch.cuda.is_available() else "cpu")
    folder, source = _locate(choice)
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = _load_weights(Path(choice.name).name, source)
    window = find_window(model.config, tokenizer, choice.max_tokens)
    revision = digest_folder(folder) if folder else shorten_commit(_find_commit(choice.name))
    loaded = LoadedModel(
        model.eval().to(device),
        tokenizer,
        identity=_identify(choice.name, folder, revision, window, tokenizer),
        device=device,
        window=window,
    )
    if loaded.depends_on_what_follows():
        raise MetricUnavailable(f"{Path(choice.name).name} is no causal language model: it reads ahead")
    loaded.read(PROBE)  # a model that cannot run is not available
    return loaded


def _locate(choice: ModelChoice) -> tuple[Path | None, dict[str, Any]]:
    """The local folder, if it is one, and the arguments that load from there; what the hub's cache has is taken from
    it, else the hub is asked once, under a time limit, before transformers retries for 20 s a file."""
    safe = {"trust_remote_code": False}
    folder = Path(choice.name).expanduser()
    if folder.is_dir():
        return folder, {"pretrained_model_name_or_path": str(folder), "local_files_only": True, **safe}
    if choice.name.startswith(("/", ".", "~")) or choice.name.count("/") > 1:
        raise MetricUnavailable(f"the language model's folder {folder.name} does not exist")
    cached = _is_cached(choice.name)
    if not cached:
        _ask_hub(choice.name, choice.hub_timeout_seconds)
    return None, {"pretrained_model_name_or_path": choice.name, "local_files_only": cached, **safe}


def _find_config(name: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(name, "config.json")
    except HFValidationError as error:
        raise MetricUnavailable(f"language model {name} is neither a folder nor a Hugging Face name") from error
    return Path(path) if isinstance(path, str) else None


def _is_cached(name: str) -> bool:
    """Whether weights lie beside the configuration: an interrupted download leaves the latter alone."""
    config = _find_config(name)
    return config is not None and any([*config.parent.glob("*.safetensors"), *config.parent.glob("*.bin")])


def _find_commit(name: str) -> str:
    config = _find_config(name)
    return config.parent.name if config is not None else "unknown"


def _ask_hub(name: str, timeout_seconds: float) -> None:
    """Raises MetricUnavailable where the hub is silent or does not have the model."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        HfApi().model_info(name, timeout=timeout_seconds)
    except RepositoryNotFoundError as error:
        raise MetricUnavailable(f"the Hugging Face hub has no public language model {name}") from error
    except Exception as error:  # requests', httpx's or httpx2's, as the hub's version has it
        reason = (
            f"language model {name} is no local folder, not in the cache, and the Hugging Face hub is not reachable"
        )
        raise MetricUnavailable(reason) from error


def _load_weights(shown: str, source: dict[str, Any]) -> Any:
    """The model; raises MetricUnavailable where its files lack weights, which transformers would fill at random."""
    import torch
    from transformers import AutoModelForCausalLM

    settings = {"dtype": torch.float32, "output_loading_info": True}
    model, report = AutoModelForCausalLM.from_pretrained(**source, **settings)
    parameters = dict(model.named_parameters())  # tied ones once, so that a tied head is not missed
    lacking = [key for key in report["missing_keys"] if key in parameters]
    if lacking:
        raise MetricUnavailable(f"the files of language model {shown} lack {len(lacking)} of its weights")
    if model.config.get_text_config().vocab_size < SMALLEST_VOCABULARY:
        raise MetricUnavailable(f"language model {shown} has fewer than {SMALLEST_VOCABULARY} tokens")
    model.config.use_cache = False  # nothing is generated
    return model


def _identify(name: str, folder: Path | None, revision: str, window: int, tokenizer: Any) -> str:
    """A local folder is named by its last part alone: where it lies changes nothing, and is nobody's business."""
    start = "no-bos" if tokenizer.bos_token_id is None else "bos"
    shown = folder.resolve().name if folder else name
    return f"{shown}_rev={revision}_window={window}_{start}_float32_hug_trans={version('transformers')}"


def _explain(shown: str, error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"language model {shown} needs a package that is not installed ({error.name or 'the log says which'})"
    if isinstance(error, MemoryError):
        return f"language model {shown} does not fit in memory"
    return f"language model {shown} could not be loaded ({type(error).__name__}; the log says more)"


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
