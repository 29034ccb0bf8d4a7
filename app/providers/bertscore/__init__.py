"""The encoder `bertscore`. None of these modules imports PyTorch before it is asked to load an encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saiten.core.messages import Message
from saiten.core.plain_text import printable
from saiten_server.providers.registry import encoder

if TYPE_CHECKING:
    from saiten_server.platform.settings import Settings
    from saiten_server.providers.ports import Encoder


def is_installed() -> bool:
    """Whether the extra is installed that the encoder needs."""
    from saiten_server.providers.bertscore.encoder import ENCODER

    return not ENCODER.find_missing()


def describe_encoders(settings: Settings) -> dict[str, str]:
    """The configured encoder by language; `*` stands for every other."""
    return {"*": settings.encoder or "bert-score's default for the language", **settings.encoders}


def find_faults(settings: Settings) -> list[Message]:
    """One sentence for each encoder that is named and cannot be had, with what was tried. It may ask the Hugging Face
    hub."""
    from saiten_server.platform.settings import variable_of
    from saiten_server.providers.bertscore.encoder import ENCODER
    from saiten_server.providers.huggingface import locate_model
    from saiten_server.providers.ports import EncoderUnavailable

    faults = []
    named = {"encoder": settings.encoder, **{f"encoder_{key}": name for key, name in settings.encoders.items()}}
    for field, name in named.items():
        if name is None:
            continue
        try:
            ENCODER.require_installed()
            locate_model(ENCODER, name, hub_timeout_seconds=5.0)
        except EncoderUnavailable as error:
            shown = printable(name[:128])
            faults.append(Message("encoder-setting", setting=variable_of(field), name=shown, reason=error.message))
    return faults


@encoder(
    "bertscore",
    wanted=lambda settings: settings.encoder != "off",
    is_installed=is_installed,
    describe=describe_encoders,
    find_faults=find_faults,
)
def open_encoder(settings: Settings) -> Encoder:
    """Its weights are loaded at the first use."""
    from saiten_server.providers.bertscore.encoder import BertScoreEncoder

    chosen = [*settings.encoders.values(), *([settings.encoder] if settings.encoder else [])]
    layers = dict.fromkeys(chosen, settings.encoder_layer) if settings.encoder_layer else {}
    # No time limit of its own: `Relevance` limits what a request waits, and b̄ of a large encoder takes its minutes.
    return BertScoreEncoder(
        encoders=settings.encoders,
        encoder=settings.encoder,
        layers=layers,
        device=settings.encoder_device,
        precision=settings.encoder_precision,
        threads=settings.encoder_threads,
        timeout_seconds=None,
    )
