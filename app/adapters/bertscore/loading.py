"""From an encoder's name or folder to a loaded encoder. Everything here may take minutes: never on the event loop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from app.adapters.bertscore.batching import limit_passes
from app.adapters.bertscore.encoding import LoadedEncoder
from app.adapters.bertscore.identity import identify
from app.adapters.bertscore.layers import choose_layer, cut
from app.adapters.bertscore.tokens import Tokenizing, find_max_tokens
from app.adapters.huggingface.kind import Kind
from app.adapters.huggingface.loading import loading
from app.adapters.huggingface.sources import Source
from app.ports import EncoderUnavailable

Precision = Literal["float32", "bfloat16"]

ENCODER = Kind("encoder", "to compare texts", ("torch", "transformers", "bert_score"), EncoderUnavailable)
_T5_KINDS = frozenset({"t5", "mt5"})
_PROBE = "1"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EncoderChoice:
    """A `Choice`; `layer` None takes bert-score's for that name, else the last; `max_batch_tokens` None what suits the
    device. In bfloat16 a similarity is no longer bert-score's, and depends, in the third digit, on what it is encoded
    with."""

    name: str
    layer: int | None
    device: str | None
    threads: int | None
    max_batch_tokens: int | None
    hub_timeout_seconds: float
    precision: Precision = "float32"


def choose_default(language: str) -> str:
    """The encoder that bert-score takes for the language (BCP 47; the subtags after the first do not count)."""
    ENCODER.require_installed()
    from bert_score.utils import lang2model

    return str(lang2model[language.lower().split("-")[0]])


def load_encoder(choice: EncoderChoice, clock: Callable[[], float] = time.monotonic) -> LoadedEncoder:
    """Loads tokenizer and weights, cut after the layer, and tries them. Code that comes with an encoder is never run.

    Raises:
        EncoderUnavailable: extra not installed, folder absent or broken, hub out of reach, layer out of range.
    """
    with loading(ENCODER, choice) as (source, device):
        import torch
        from transformers import AutoConfig, AutoTokenizer

        config = AutoConfig.from_pretrained(**source.arguments)
        tokenizer = AutoTokenizer.from_pretrained(**source.arguments, use_fast=False)  # as bert-score asks for it
        whole, missing = _load_weights(config, source, choice.precision)
        layer = choose_layer(choice.name, choice.layer, config)
        model = cut(whole, layer)
        _refuse_untrained(choice.name, missing, model)
        encoder = LoadedEncoder(
            model.to(device),
            Tokenizing(tokenizer, find_max_tokens(tokenizer, model)),
            identity=identify(choice.name, layer, source.find_revision(), tokenizer, choice.precision),
            device=device,
            limits=limit_passes(device, torch.get_num_threads(), choice.max_batch_tokens),
            clock=clock,
        )
        _warn_of_half_precision(choice, device)
        encoder.compare([(_PROBE, _PROBE)])  # an encoder that cannot run is not available
        return encoder


def _load_weights(config: Any, source: Source, precision: Precision) -> tuple[Any, list[Any]]:
    """The whole model and those of its parameters that the checkpoint did not have."""
    import torch
    from transformers import AutoModel, T5EncoderModel

    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]
    model_class = T5EncoderModel if config.model_type in _T5_KINDS else AutoModel
    model, report = model_class.from_pretrained(**source.arguments, dtype=dtype, output_loading_info=True)
    parameters = dict(model.named_parameters())
    missing = [parameters[key] for key in report["missing_keys"] if key in parameters and "pooler" not in key]
    return model, missing


def _refuse_untrained(name: str, missing: list[Any], model: Any) -> None:
    """transformers fills weights that a checkpoint lacks at random and only warns."""
    used = {id(parameter) for parameter in model.parameters()}
    lacking = sum(id(parameter) in used for parameter in missing)
    if lacking:
        raise EncoderUnavailable(f"the files of encoder {Path(name).name} lack {lacking} of its weights")


def _warn_of_half_precision(choice: EncoderChoice, device: str) -> None:
    if choice.precision == "bfloat16" and device == "cpu":
        logger.warning(
            "encoder %s runs in bfloat16 on a CPU: similarities move in the third digit, and only CPUs with AMX or"
            " AVX-512 BF16 gain from it",
            Path(choice.name).name,
        )
