"""The columns of a file of results, each declared once: what `saiten offline` writes, and what a run is read from.

They are the columns of `RunFrame`, with the ids and the texts that only people read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from saiten_server.core.rubric import Rubric

Type = Literal["string", "int16", "int32", "int64", "float64"]


class FileColumn(NamedTuple):
    """A column of a file of results. `nullable`: null where a result has no such value."""

    name: str
    type: Type
    meaning: str
    nullable: bool = True


RESULT_COLUMNS: tuple[FileColumn, ...] = (
    FileColumn("key", "string", "digest of the text, the rubric and the signature: what a row is stored under", False),
    FileColumn("row_key", "int64", "the key as a number, by which a row that was written twice counts once", False),
    FileColumn("item", "string", "the item's id", False),
    FileColumn("item_key", "int64", "the id as a number, by which two runs are paired", False),
    FileColumn("candidate", "int32", "number among the item's responses, from 0; null of a single one"),
    FileColumn("dialogue", "string", "the dialogue that the item is a turn of, as the input names it"),
    FileColumn("cluster", "string", "digest of the dialogue: equal ones count as one independent unit"),
    FileColumn("cluster_key", "int64", "the cluster as a number; null where the result stands alone"),
    FileColumn("context_key", "int64", "the dialogue context as a number, equal for equal ones; null of a failure"),
    FileColumn("rubric", "string", "`id@version`", False),
    FileColumn("signature", "string", "how it was scored; null of a failure"),
    FileColumn("status", "string", "`scored`, `partial` or `failed`", False),
    FileColumn("failure", "string", "code of the failure in the place of an evaluation"),
    FileColumn("failure.detail", "string", "what failed, in English"),
    FileColumn("warnings", "string", "codes of the warnings, parted by spaces"),
    FileColumn("system", "string", "`system` of the metadata: what produced the response"),
    FileColumn("build", "string", "`build` of the metadata"),
    FileColumn("metadata", "string", "the item's metadata as JSON"),
    FileColumn("similarity", "float64", "b, the similarity of the response to the utterance before it"),
    FileColumn("spread", "float64", "mean standard deviation of the samples, as a share of each scale"),
    FileColumn("probability", "float64", "with which a monitor sampled the conversation; null of anything else"),
    FileColumn("system_turns", "int32", "of a conversation: how many turns the system has"),
    FileColumn("faults", "string", "of a conversation: its faulty turns by code, as JSON"),
    FileColumn("judge_calls", "int32", "calls of the judge that were made for it", False),
    FileColumn("prompt_tokens", "int64", "tokens that these sent", False),
    FileColumn("completion_tokens", "int64", "tokens that they returned", False),
    FileColumn("cost_usd", "float64", "what they cost; null where the price is not known"),
)
"""What every result has, whatever its rubric."""

REQUIRED = ("row_key", "item", "item_key", "rubric", "status")
"""Without these a file is none of results."""

ASPECT: tuple[FileColumn, ...] = (
    FileColumn("rating", "int16", "the judge's rating of the aspect"),
    FileColumn("mean", "float64", "mean of the samples: what counts"),
    FileColumn("sd", "float64", "population standard deviation of the samples"),
    FileColumn("expected", "float64", "mean of the levels by the judge's probabilities, where they were asked for"),
    FileColumn("blended", "float64", "the mean blended with the similarity, where the aspect is blended"),
    FileColumn("unrated", "string", "why there is no rating"),
)
"""Of each aspect: `mean.fluency` is the mean of the aspect `fluency`."""

COMPOSITE = FileColumn("composite", "float64", "value of the composite")
"""Of each composite: `composite.ssa`."""

RESPONSE_TEXTS: tuple[FileColumn, ...] = (
    FileColumn("context", "string", "the dialogue context as JSON: a list of `speaker` and `text`"),
    FileColumn("response", "string", "the response"),
)
CONVERSATION_TEXTS: tuple[FileColumn, ...] = (
    FileColumn("turns", "string", "the conversation as JSON: a list of `speaker`, `role` and `text`"),
    FileColumn("persona", "string", "the persona as JSON"),
    FileColumn("goal", "string", "the goal"),
    FileColumn("findings", "string", "what was found in it as JSON, with the details"),
)
REASON = FileColumn("reason", "string", "the judge's reason for the rating of the aspect")
"""Of each aspect, where texts are kept: `reason.fluency`."""


def describe_columns() -> str:
    """The columns as a table in Markdown, as the documentation has them."""
    rows = [
        *((one.name, one) for one in RESULT_COLUMNS),
        *((f"{one.name}.ASPECT", one) for one in ASPECT),
        (f"{COMPOSITE.name}.COMPOSITE", COMPOSITE),
        *((one.name, one) for one in (*RESPONSE_TEXTS, *CONVERSATION_TEXTS)),
        (f"{REASON.name}.ASPECT", REASON),
    ]
    lines = [f"| `{name}` | {one.type}{' or null' if one.nullable else ''} | {one.meaning} |" for name, one in rows]
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *lines]) + "\n"


def list_columns(rubric: Rubric, *, texts: bool = False) -> Iterator[FileColumn]:
    """The columns of the results by this rubric in order, the same whatever the results hold; with `texts` those that
    hold what was said, too."""
    yield from RESULT_COLUMNS
    for aspect in rubric.aspects:
        yield from (each._replace(name=f"{each.name}.{aspect.id}") for each in ASPECT)
    yield from (COMPOSITE._replace(name=f"{COMPOSITE.name}.{one.id}") for one in rubric.composites)
    if texts:
        yield from CONVERSATION_TEXTS if rubric.unit == "conversation" else RESPONSE_TEXTS
        yield from (REASON._replace(name=f"{REASON.name}.{aspect.id}") for aspect in rubric.aspects)
