"""From a language model's name or folder to a loaded one. Everything here may take minutes: never on the event loop."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from app.adapters.causallm.reading import LoadedModel
from app.adapters.causallm.window import find_window
from app.adapters.huggingface.kind import Kind
from app.adapters.huggingface.loading import loading
from app.adapters.huggingface.sources import Source
from app.metric_ports import MetricUnavailable, Passage

LANGUAGE_MODEL = Kind("language model", "for perplexities", ("torch", "transformers"), MetricUnavailable)
PROBE = Passage("1 2")
SMALLEST_VOCABULARY = 4
"""As many tokens as the probe for causality needs."""


@dataclass(frozen=True)
class ModelChoice:
    """A `Choice`; `max_tokens` bounds the window."""

    name: str
    device: str | None
    threads: int | None
    max_tokens: int
    hub_timeout_seconds: float


def load_model(choice: ModelChoice) -> LoadedModel:
    """Loads tokenizer and weights, in float32. Code that comes with a model is never run.

    Raises:
        MetricUnavailable: extra not installed, folder absent or broken, hub out of reach, no causal language model.
    """
    with loading(LANGUAGE_MODEL, choice) as (source, device):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(**source.arguments)
        model = _load_weights(source)
        window = find_window(model.config, tokenizer, choice.max_tokens)
        loaded = LoadedModel(
            model.eval().to(device),
            tokenizer,
            identity=_identify(source, window, tokenizer),
            device=device,
            window=window,
        )
        if loaded.depends_on_what_follows():
            raise MetricUnavailable(f"{Path(choice.name).name} is no causal language model: it reads ahead")
        loaded.read(PROBE)  # a model that cannot run is not available
        return loaded


def _load_weights(source: Source) -> Any:
    """The model; raises MetricUnavailable where its files lack weights, which transformers would fill at random."""
    import torch
    from transformers import AutoModelForCausalLM

    settings = {"dtype": torch.float32, "output_loading_info": True}
    shown = Path(source.name).name
    model, report = AutoModelForCausalLM.from_pretrained(**source.arguments, **settings)
    parameters = dict(model.named_parameters())  # tied ones once, so that a tied head is not missed
    lacking = [key for key in report["missing_keys"] if key in parameters]
    if lacking:
        raise MetricUnavailable(f"the files of language model {shown} lack {len(lacking)} of its weights")
    if model.config.get_text_config().vocab_size < SMALLEST_VOCABULARY:
        raise MetricUnavailable(f"language model {shown} has fewer than {SMALLEST_VOCABULARY} tokens")
    model.config.use_cache = False  # nothing is generated
    return model


def _identify(source: Source, window: int, tokenizer: Any) -> str:
    """A local folder is named by its last part alone: where it lies changes nothing, and is nobody's business."""
    start = "no-bos" if tokenizer.bos_token_id is None else "bos"
    shown = source.folder.resolve().name if source.folder else source.name
    return f"{shown}_rev={source.find_revision()}_window={window}_{start}_float32_hug_trans={version('transformers')}"
