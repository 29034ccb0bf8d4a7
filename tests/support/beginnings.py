"""What several texts begin with alike."""

from collections.abc import Sequence
from typing import TypeVar

Text = TypeVar("Text", bytes, str)


def common_beginning(texts: Sequence[Text]) -> Text:
    """The longest beginning that all of at least one text have."""
    # Between the least and the greatest lies every other.
    least, greatest = min(texts), max(texts)
    same = next((at for at, pair in enumerate(zip(least, greatest, strict=False)) if pair[0] != pair[1]), len(least))
    return least[:same]
