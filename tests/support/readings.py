"""How much the search for attacks reads."""

from collections.abc import Callable, Sequence

import pytest

from saiten_server.text.injection import masking
from saiten_server.text.injection.inspection import SuspectedKinds, find_kinds


def count_readings(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many characters masking has looked through since this was called, those read twice counted twice."""
    read = 0

    def counted(text: str, aspects: Sequence[str], above: float = 0.0) -> SuspectedKinds:
        nonlocal read
        read += len(text)
        return find_kinds(text, aspects, above)

    monkeypatch.setattr(masking, "find_kinds", counted)
    return lambda: read
