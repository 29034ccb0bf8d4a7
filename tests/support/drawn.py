"""What a round drew, in tests that are about something else."""

from collections.abc import Iterable

from saiten_server.ratings.values import RoundDraw


def draw(positions: Iterable[int], probability: float = 0.5) -> RoundDraw:
    """These positions, each with that probability."""
    listed = [*positions]
    return RoundDraw(listed, [probability] * len(listed))
