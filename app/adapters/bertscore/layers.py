"""Which layer's representation is compared, and the model cut after it, as bert-score's `get_model` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.ports import EncoderUnavailable


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
