"""Files of results as runs: compared and gated as batches are, and summed up.

The verdict is that of `POST /v1/gates` over the same results, by the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from saiten.core.messages import Message
from saiten_server.comparison.given_runs import check_scales
from saiten_server.comparison.requests import GateRequest
from saiten_server.comparison.runs import count_rules, list_best, scales_of
from saiten_server.comparison.values import ComparedRun, GateReport
from saiten_server.core.batch import Batch, Counts
from saiten_server.core.errors import InvalidRequest, UnknownAspect
from saiten_server.core.evaluation import RESULT_STATUSES, JudgeOptions
from saiten_server.core.rubric import Rubric
from saiten_server.core.signature import find_differing
from saiten_server.core.validation import InvalidDocument, clip
from saiten_server.offline.frame_reading import FileRun, read_run
from saiten_server.offline.opened_files import FrameFiles
from saiten_server.runs.summaries import estimate_frames, summarize_tally, tally_frame
from saiten_server.runs.summary import Summary
from saiten_server.scoring.rubrics.files import RubricSource
from saiten_server.stats.observations import NO_DIALOGUE, NO_RATER, Observations, number_first

MOST_ID = 64


def choose_rubric(files: FrameFiles, rubrics: RubricSource, named: str | None = None) -> Rubric:
    """The rubric that rated the results: the one that the files name, else the one `named`. Raises InvalidRequest where
    there is none, and UnknownRubric."""
    name = files.rubric or named
    if name is None:
        raise InvalidRequest(Message("frame-rubric-missing", name=files.name))
    return rubrics.nearest(name)


def read_checked(files: FrameFiles, rubric: Rubric) -> FileRun:
    """The results that the files hold. Raises InvalidRequest for a value that its scale does not have, too."""
    run = read_run(files, rubric)
    try:
        check_scales(run.frame, scales_of(rubric), "")
    except InvalidDocument as error:
        pointer, what = error.faults[0]
        row = int(pointer.split("/")[1])
        raise InvalidRequest(Message("frame-row-unfit", place=run.place(row), why=what)) from None
    return run


def compare_files(files: FrameFiles, rubric: Rubric) -> ComparedRun:
    """The run that the files hold."""
    run = read_checked(files, rubric)
    return ComparedRun(
        name=files.name,
        frame=run.frame,
        expected=len(run.frame),
        signatures=run.signatures,
        scales=scales_of(rubric),
        aspects=tuple(aspect.id for aspect in rubric.aspects),
        best=list_best(rubric),
        rubric=rubric.name,
    )


def describe_batch(files: FrameFiles, rubric: Rubric, run: FileRun) -> Batch:
    """The run as a batch that is completed. With which options it was scored only its signatures tell."""
    now, signatures = datetime.now(UTC), run.signatures
    statuses = run.frame.count_labels(lambda label: [label.status])
    return Batch(
        id=files.name[-MOST_ID:],
        name=None,
        status="completed",
        rubric=rubric.id,
        rubric_version=rubric.version,
        path="source",
        relevance=None,
        judge=JudgeOptions(),
        budget_usd=None,
        counts=Counts(total=len(run.frame), queued=0, **{name: statuses[name] for name in RESULT_STATUSES}),
        progress=1.0,
        rate_per_second=None,
        estimated_end=None,
        usage=run.usage,
        signature=next(iter(signatures)) if len(signatures) == 1 else None,
        signatures=signatures if len(signatures) > 1 else {},
        metadata={},
        ids_given=True,
        created_at=now,
    )


def summarize_files(files: FrameFiles, rubrics: RubricSource, named: str | None) -> Summary:
    """The summary of the files' results, as `GET /v1/batches/{id}/summary` has it of a batch's."""
    rubric = choose_rubric(files, rubrics, named)
    run = read_checked(files, rubric)
    tally = tally_frame(run.frame)
    intervals = estimate_frames([run.frame], rubric, {}, findings=bool(tally.findings))
    return summarize_tally(rubric, tally, describe_batch(files, rubric, run), intervals)


def gate_files(
    request: GateRequest, candidate: FrameFiles, baseline: FrameFiles | None, rubrics: RubricSource, named: str | None
) -> GateReport:
    """The verdict on the candidate's files. Rules are checked before any row is read. Raises InvalidRequest,
    UnknownAspect, UnknownRubric and SignatureMismatch."""
    from saiten_server.comparison.verdicts import judge_runs

    opened = {role: files for role, files in (("candidate", candidate), ("baseline", baseline)) if files is not None}
    found = {role: choose_rubric(files, rubrics, named) for role, files in opened.items()}
    if not request.coverage_only:
        count_rules(request.rules, found["candidate"], found.get("baseline"))
    runs: dict[str, ComparedRun] = {role: compare_files(files, found[role]) for role, files in opened.items()}
    return judge_runs(request, runs["candidate"], runs.get("baseline"))


def observe_files(
    files: FrameFiles, rubric: Rubric, aspects: Sequence[str] | None = None
) -> tuple[Observations, tuple[str, ...]]:
    """The judge's ratings in the files, each system's by the metadata of its rows, of the aspects that are named, and
    the pieces of the signature in which results differ. Raises UnknownAspect for an aspect that the rubric does not
    have."""
    known = [one.id for one in rubric.aspects]
    for number, name in enumerate(aspects or ()):
        if name not in known:
            raise UnknownAspect(Message("aspect-unrated-here", name=repr(clip(name))), pointer=f"/aspects/{number}")
    run = read_checked(files, rubric)
    frame = run.frame
    item = number_first(frame.items)
    clusters = frame.clusters
    dialogue = np.full(len(frame), NO_DIALOGUE, dtype=np.int64)
    dialogue[clusters != 0] = number_first(clusters[clusters != 0])
    names = sorted({label.system or "" for label in frame.labels})
    system = np.array([names.index(label.system or "") for label in frame.labels], dtype=np.int64)[frame.label]
    observed = Observations(
        systems=tuple(names),
        items=("",) * (int(item.max(initial=-1)) + 1),  # no analysis of files names one
        raters=(),
        system=system,
        item=item,
        rater=np.full(len(frame), NO_RATER, dtype=np.int64),
        ratings={},
        scores={name: frame.read(("aspect", name)) for name in aspects or known},
        dialogue=dialogue if (clusters != 0).any() else None,
        sampled=frame.probability if (frame.probability < 1).any() else None,
    )
    return observed, find_differing(run.signatures)
