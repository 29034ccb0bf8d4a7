"""Saiten (採点 · 채점): scores what dialogue systems say in Japanese and Korean."""

__version__ = "0.1.0"
