"""Loads an encoder by name or folder. Loading may take minutes, so it must not run on the event loop."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from app.providers.bertscore.similarity import LoadedEncoder, Tokenizing, find_max_tokens, limit_passes
from app.providers.huggingface import ModelKind, Source, loading
from app.providers.ports import EncoderUnavailable


def identify(name: str, layer: int, revision: str, tokenizer: Any, precision: str = "float32") -> str:
    """The identity in the format of bert-score's `get_hash`, with the files' revision, MeCab's dictionary if used, and
    the precision if it differs from bert-score's. Only the last part of a local folder's path is shown.
    """
    shown = re.sub(r"[^\w./-]", "_", Path(name).name if Path(name).expanduser().is_dir() else name)
    library = f"version={version('bert-score')}(hug_trans={version('transformers')})"
    suffix = "" if precision == "float32" else f"_{precision}"
    return f"{shown}_L{layer}_no-idf_{library}_rev={revision}{_identify_dictionary(tokenizer)}{suffix}"


def _identify_dictionary(tokenizer: Any) -> str:
    if getattr(tokenizer, "word_tokenizer_type", None) != "mecab":
        return ""
    options = getattr(tokenizer, "mecab_kwargs", None) or {}
    dictionary = options.get("mecab_dic", "unidic_lite")
    if dictionary is None:
        return "_mecab=system"
    return f"_mecab={dictionary}-{version(dictionary)}"


def choose_layer(name: str, layer: int | None, config: Any) -> int:
    """The asked layer; else bert-score's for that name (of a folder: for its last part); else the last.

    Raises:
        EncoderUnavailable: the asked layer is not in [0, number of layers].
    """
    from bert_score.utils import model2layers

    last = int(config.num_hidden_layers)
    if layer is not None:
        if not 0 <= layer <= last:
            raise EncoderUnavailable(f"encoder {Path(name).name} has layers 0 to {last}, not {layer}")
        return layer
    by_last_part = {known.rsplit("/", 1)[-1]: number for known, number in model2layers.items()}
    chosen = model2layers.get(name, by_last_part.get(Path(name).name, last))
    return min(int(chosen), last)


def cut(model: Any, layers: int) -> Any:
    """The model, or its encoder half, without the layers after the first `layers` and in evaluation mode.

    Raises:
        EncoderUnavailable: no family of encoders that bert-score knows.
    """
    model = model.eval()
    if hasattr(model, "decoder") and hasattr(model, "encoder"):
        model = model.encoder
    inner: Any = getattr(model, "encoder", getattr(model, "transformer", None))
    if hasattr(model, "n_layers"):  # XLM
        model.n_layers = layers
    elif hasattr(inner, "albert_layer_groups"):
        inner.config.num_hidden_layers = layers
    else:
        _shorten(model, inner, layers)
    return model


def _shorten(model: Any, inner: Any, layers: int) -> None:
    # In this order XLNet; T5; BERT and DistilBERT; BART and ModernBERT.
    for owner, attribute in ((model, "layer"), (inner, "block"), (inner, "layer"), (model, "layers")):
        if hasattr(owner, attribute):
            setattr(owner, attribute, getattr(owner, attribute)[:layers])
            return
    raise EncoderUnavailable(f"bert-score knows no way to take a layer of a {type(model).__name__}")


Precision = Literal["float32", "bfloat16"]

ENCODER = ModelKind("encoder", "to compare texts", ("torch", "transformers", "bert_score"), EncoderUnavailable)
_T5_KINDS = frozenset({"t5", "mt5"})
_PROBE = "1"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EncoderChoice:
    """A `LoadableModel`. `layer` None takes bert-score's for that name, else the last; `max_batch_tokens` None what
    suits the device. In bfloat16, similarities differ from bert-score's and depend in the third digit on the batch."""

    name: str
    layer: int | None
    device: str | None
    threads: int | None
    max_batch_tokens: int | None
    hub_timeout_seconds: float
    precision: Precision = "float32"


DEFAULTS = {"en": "roberta-large", "zh": "bert-base-chinese", "tr": "dbmdz/bert-base-turkish-cased"}
OTHER_DEFAULT = "bert-base-multilingual-cased"
"""bert-score's own choices. Its table can only be read by importing PyTorch, which takes seconds: too long where the
encoder then turns out not to be there."""


def choose_default(language: str) -> str:
    """The encoder that bert-score takes for the language (BCP 47; the subtags after the first do not count)."""
    ENCODER.require_installed()
    return DEFAULTS.get(language.lower().split("-")[0], OTHER_DEFAULT)


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
