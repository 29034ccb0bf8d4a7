"""Saiten (採点 · 채점): scores what dialogue systems say in Japanese and Korean."""

from saiten import __version__
from saiten.core import messages

__all__ = ["__version__"]

messages.packages.append("saiten_server")
