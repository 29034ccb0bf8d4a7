"""Files that a CI job hands to `saiten gate`, and a judge whose ratings a test may shift."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.fake_openai import Answer, Choose, Request, candidate_of, complete, verdict_of
from tests.support.posted import make_item

WORSE = "そうですか。"
ASPECTS = ("naturalness", "coherence", "interestingness", "relevance", "consistency", "overall")
SIGNATURE = "saiten:0.1.0|rubric:ja-dialogue@1|judge:openai|model:m"


def write_lines(path: Path, values: Sequence[object]) -> str:
    """NDJSON; the file's name."""
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    return path.name


def write_items(folder: Path, name: str = "items.ndjson", count: int = 40, worse: int = 0, **changes: Any) -> str:
    """`count` items, the first `worse` of them with a response that says nothing. Each has a context of its own: items
    with one context count as one dialogue."""
    contexts = [[{"speaker": "A", "text": f"週末はどこかに出かけましたか？（{number}）"}] for number in range(count)]
    items = [make_item(number, **{"context": context, **changes}) for number, context in enumerate(contexts)]
    for item in items[:worse]:
        item["response"] = WORSE
    return write_lines(folder / name, items)


def make_result(number: int = 0, rating: int = 3, **changes: Any) -> dict[str, Any]:
    """A line of results in which each aspect has this rating; coherence and consistency, on 0 to 1, have 1."""
    means = {name: float(rating) for name in ASPECTS} | {"coherence": 1.0, "consistency": 1.0}
    return {
        "item": f"i{number}",
        "candidate": None,
        "status": "scored",
        "rubric": {"id": "ja-dialogue", "version": 1},
        "aspects": {name: {"rating": rating, "mean": mean, "blended": None} for name, mean in means.items()},
        "composites": {},
        "signature": SIGNATURE,
        "metadata": {"system": "bot-a"},
        **changes,
    }


def write_results(folder: Path, name: str, ratings: Sequence[int], **changes: Any) -> str:
    """A result a rating."""
    return write_lines(folder / name, [make_result(number, rating, **changes) for number, rating in enumerate(ratings)])


class ShiftingJudge:
    """Rates a response that says nothing lowest and any other highest; `rates` all alike where that is set."""

    def __init__(self) -> None:
        self.rates: Choose | None = None

    def __call__(self, request: Request) -> Answer:
        usual: Choose = min if candidate_of(request) == WORSE else max
        return complete(request, verdict_of(request, self.rates or usual))


def judged_by(base_url: str) -> Mapping[str, str]:
    """Variables of a process that asks this judge."""
    return {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": base_url, "SAITEN_JUDGE_ATTEMPTS": "1"}
