"""How the worst cases of a gate are told, in a terminal, in Markdown and in JUnit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from saiten import answers
from saiten.answer import Answer
from saiten.core.language import tell

BLENDED = ".blended"


class CaseSide(Answer):
    """One run's response to a case. `rating` is of the case's aspect; `reasons` are the judge's, with `asked` those
    that it gave when it was asked again, with the ratings that went with them."""

    evaluation: str | None = None
    response: str | None = None
    rating: float | None = None
    reasons: Mapping[str, str] = {}
    asked: Mapping[str, int | None] = {}


class GateCase(Answer):
    """One of the items that speak most against the candidate; `said` is what was answered."""

    item: str
    aspect: str
    said: str | None = None
    candidate: CaseSide
    baseline: CaseSide | None = None


class ShownGateReason(answers.GateReason):
    """A finding of the gate; of an assertion, with what the command checked of every response, as `contains '円'`."""

    assertion: str | None = None


class ShownGateReport(answers.GateReport):
    """The verdict with what a reader wants beside the service's answer: what to call the runs (`names`, by what the
    report calls them), the worst `cases`, why not all of them have `unexplained` reasons, and the explorer's `address`.
    """

    reasons: tuple[ShownGateReason, ...]
    names: Mapping[str, str] = {}
    cases: tuple[GateCase, ...] = ()
    unexplained: str | None = None
    address: str | None = None

    def call(self, run: str) -> str:
        """What a reader calls a run of this report."""
        return self.names.get(run, run)


def list_lines(case: GateCase) -> Iterator[str]:
    """The case in lines: what was answered, and each response with its rating and the reasons for it."""
    if case.said is not None:
        yield tell("answering: {text}", text=shorten(case.said))
    for head, side in ((tell("baseline"), case.baseline), (tell("candidate"), case.candidate)):
        if side is None:
            continue
        rating = "" if side.rating is None else f" ({case.aspect} {side.rating:.3g})"
        yield f"{head}{rating}: {'–' if side.response is None else shorten(side.response)}"
        for name, reason in side.reasons.items():
            yield "  " + tell_reason(case, side, name, reason)


def tell_reason(case: GateCase, side: CaseSide, name: str, reason: str) -> str:
    """The judge's reason, with its aspect where that is not the case's; that it was asked again, where its rating then
    was another one."""
    told = tell("reason: {reason}", reason=shorten(reason))
    if name != case.aspect.removesuffix(BLENDED):
        told = tell("reason ({aspect}): {reason}", aspect=name, reason=shorten(reason))
    then = side.asked.get(name)
    if then is not None and side.rating is not None and name == case.aspect and then != side.rating:
        told += " " + tell("(asked again, the judge rated {rating})", rating=then)
    return told


LONGEST_TEXT = 200
"""Characters of a text that a report shows."""


def shorten(text: str) -> str:
    """The text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TEXT else line[: LONGEST_TEXT - 1] + "…"
