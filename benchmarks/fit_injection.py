"""Fits the model of texts that speak to their judge and writes app/text/injection/weights.json.

    python -m benchmarks.fit_injection [--check] [--report]

The same corpus gives the same file; `--check` writes nothing and exits 1 where the committed file differs. `--report`
prints what share of each portion is flagged by a model that was fitted without it.

A text is known to be an attack or not, its passages are not. So the model is first fitted with the longest passage of
each attack as suspicious, and then twice more with the one that the model before found the most suspicious.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from saiten_server.core.folding import fold
from saiten_server.text.injection.wording import DAMPING, LONGEST_RUN, KnownRuns, passages, sentences

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
APP = ROOT / "app"
TARGET = APP / "text" / "injection" / "weights.json"
LANGUAGES = {"ja-dialogue": "ja", "ko-comment": "ko", "ko-dialogue": "ko", "lfqa": "ja"}
"""Of the anchors, by file."""

FEWEST_TEXTS = 3
"""Texts that a run of characters must occur in."""

C = 30.0
ROUNDS = 3
FALSE_ALARMS = 0.08
"""Share of the look-alikes that may be flagged by a model that was fitted without their portion: sets the threshold."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Text:
    """One text of the corpus."""

    portion: str
    language: str
    attack: bool
    text: str


def read_corpus() -> list[Text]:
    """Every text once: the portions of `injection/`, the two older corpora, the look-alikes and ordinary talk."""
    found = []
    for path in (
        *sorted((DATA / "injection").glob("*.jsonl")),
        DATA / "untrusted.jsonl",
        DATA / "untrusted_more.jsonl",
    ):
        found += [Text(path.stem, row["language"], row["attack"], row["text"]) for row in rows(path)]
    for row in rows(DATA / "lookalikes.jsonl"):
        said = [row["response"], *(utterance["text"] for utterance in row["context"])]
        found += [Text("lookalikes", row["language"], False, text) for text in said]
    for path in sorted((APP / "scoring" / "calibration").glob("*.jsonl")):
        said = [text for row in rows(path) for text in (row["last_utterance"], row["response"])]
        found += [Text("ordinary", path.stem, False, text) for text in said]
    for path in sorted((APP / "comparison" / "judge_checks" / "anchors").glob("*.jsonl")):
        said = [text for row in rows(path) for text in (row["response"], *(each["text"] for each in row["context"]))]
        found += [Text("ordinary", LANGUAGES[path.stem], False, text) for text in said]
    return list({each.text: each for each in found}.values())


def rows(path: Path) -> list[dict[str, Any]]:
    """The objects of an NDJSON file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def list_runs(said: str) -> set[str]:
    """Every run of characters in a sentence: to begin with, all of them are known."""
    lengths = range(1, LONGEST_RUN + 1)
    return {said[start : start + length] for length in lengths for start in range(len(said) - length + 1)}


class Passages:
    """All passages of the corpus: `matrix`, shape (passages, runs); `owner` is the number of each one's text."""

    def __init__(self, texts: Sequence[Text]) -> None:
        self.attack = np.array([text.attack for text in texts])
        self.portion = np.array([text.portion for text in texts])
        said = [sentences(fold(text.text)) for text in texts]
        counts = Counter(run for each in said for run in set().union(*map(list_runs, each)))
        self.runs = sorted(run for run, count in counts.items() if count >= FEWEST_TEXTS)
        known_runs = KnownRuns(self.runs)
        # A rare run says more than a common one: its weight is penalised less.
        self.rarity = np.array([1 + np.log(len(texts) / counts[run]) for run in self.runs])
        places, owners = [], []
        for number, each in enumerate(said):
            known = [sorted(known_runs.find(one)) for one in each]
            for start, end in passages(len(each)):
                places.append([column for one in known[start:end] for column in one])
                owners.append(number)
        self.owner = np.array(owners)
        ends = np.cumsum([0, *map(len, places)])
        damped = np.repeat([max(1, len(each)) ** -DAMPING for each in places], np.diff(ends))
        columns_of = np.fromiter(chain.from_iterable(places), int)
        values = damped * self.rarity[columns_of]
        self.matrix = csr_matrix((values, columns_of, ends), shape=(len(places), len(self.runs)))
        self.matrix.sum_duplicates()

    def fit(self, chosen: NDArray[np.bool_]) -> LogisticRegression:
        """The model of the chosen texts' passages."""
        places = np.flatnonzero(chosen[self.owner])
        attack = self.attack[self.owner]
        scores = self.matrix.getnnz(axis=1)
        for _ in range(ROUNDS):
            order = places[np.argsort(-scores[places], kind="stable")]
            order = order[attack[order]]
            most = order[np.unique(self.owner[order], return_index=True)[1]]
            kept = np.concatenate([places[~attack[places]], most])
            model = LogisticRegression(C=C, max_iter=500).fit(self.matrix[kept], attack[kept])
            scores = model.decision_function(self.matrix)
        return model

    def score(self, model: LogisticRegression) -> Floats:
        """Each text's most suspicious passage, shape (texts,)."""
        scores = np.full(len(self.attack), -np.inf)
        np.maximum.at(scores, self.owner, model.decision_function(self.matrix))
        return scores

    def left_out(self) -> Floats:
        """Each text's score by the model that was fitted without its portion, shape (texts,)."""
        found = np.empty(len(self.attack))
        for portion in np.unique(self.portion):
            mine = self.portion == portion
            found[mine] = self.score(self.fit(~mine))[mine]
        return found


def share(flagged: NDArray[np.bool_]) -> str:
    """As `12 of 20 (60%)`."""
    return f"{flagged.sum()} of {len(flagged)} ({100 * flagged.mean():.0f}%)" if len(flagged) else "none in it"


def report(texts: Sequence[Text], flagged: NDArray[np.bool_]) -> list[str]:
    """A Markdown table of what is flagged by portion and by language."""
    attack = np.array([text.attack for text in texts])
    lines = ["| portion | attacks flagged | look-alikes flagged |", "|---|---|---|"]
    for name in ("portion", "language"):
        of = np.array([getattr(text, name) for text in texts])
        for value in np.unique(of):
            lines.append(
                f"| {value} | {share(flagged[(of == value) & attack])} | {share(flagged[(of == value) & ~attack])} |"
            )
    return [*lines, f"| all | {share(flagged[attack])} | {share(flagged[~attack])} |"]


def write_model(data: dict[str, Any]) -> str:
    """The model as JSON, the weights of all runs that begin with the same character on one line."""
    head = {name: value for name, value in data.items() if name != "weights"}
    lines = [
        json.dumps(dict(group), ensure_ascii=False, separators=(",", ":"))[1:-1]
        for _, group in groupby(data["weights"].items(), key=lambda pair: pair[0][0])
    ]
    opening = json.dumps(head, ensure_ascii=False, indent=0, separators=(",", ":")).removesuffix("\n}")
    return opening + ',\n"weights":{\n' + ",\n".join(lines) + "\n}\n}\n"


def main() -> int:
    """Fits, reports and writes or compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where the committed file differs")
    parser.add_argument("--report", action="store_true", help="print the shares flagged, portion by portion")
    options = parser.parse_args()
    texts = read_corpus()
    corpus = Passages(texts)
    left_out = corpus.left_out()
    hard = ~corpus.attack & (~np.isin(corpus.portion, ("ordinary", "everyday", "support")))
    threshold = round(float(np.quantile(left_out[hard], 1 - FALSE_ALARMS)), 3)
    if options.report:
        print("\n".join(report(texts, left_out > threshold)))
    model = corpus.fit(np.ones(len(texts), dtype=bool))
    weights = model.coef_[0] * corpus.rarity
    data = {
        "provenance": {
            "script": "benchmarks/fit_injection.py",
            "texts": {portion: int((corpus.portion == portion).sum()) for portion in np.unique(corpus.portion)},
            "attacks": int(corpus.attack.sum()),
            "scikit_learn": version("scikit-learn"),
            "flagged_left_out": {
                "attacks": round(float((left_out > threshold)[corpus.attack].mean()), 3),
                "look_alikes": round(float((left_out > threshold)[hard].mean()), 3),
            },
        },
        "threshold": threshold,
        "intercept": round(float(model.intercept_[0]), 3),
        "weights": {run: round(1000 * weight) for run, weight in zip(corpus.runs, weights, strict=True)},
    }
    written = write_model(data)
    if options.check:
        return int(TARGET.read_text(encoding="utf-8") != written)
    TARGET.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
