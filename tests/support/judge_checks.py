"""What a check of the judge found, as small as it can be."""

from typing import Literal

from saiten_server.comparison.judge_checks.values import AnchorRatings, JudgeCheck


def make_check(verdict: Literal["steady", "moved", "recorded"], detail: str = "a check of the judge") -> JudgeCheck:
    """A check without figures."""
    ratings = AnchorRatings.model_validate(
        {
            "rubric": "r",
            "anchors": "a",
            "asked": "q",
            "judge": "openai/m",
            "signature": "s",
            "at": "2026-11-21T00:00:00Z",
            "ratings": {},
        }
    )
    return JudgeCheck(
        verdict=verdict,
        detail=detail,
        rubric="r",
        judge="openai/m",
        anchors=36,
        unrated=0,
        alpha=0.01,
        aspects={},
        ratings=ratings,
    )
