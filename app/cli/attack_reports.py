"""Reports on attacks as Markdown and JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator

from saiten.commands.junit import OUTCOMES, JUnitCase, write_suite
from saiten.commands.markdown import DASH, GATE_VERDICTS, escape
from saiten.core.language import tell, tell_all
from saiten_server.attacks.values import AttackGroup, AttackReport, Count, Mean
from saiten_server.cli.process import say


def write_attack_markdown(report: AttackReport) -> str:
    """Headline, what decided, the figures by kind and language, and what was missed."""
    rubrics = ", ".join(f"{language}: {rubric}" for language, rubric in report.rubrics.items())
    models = ", ".join(report.models) or DASH
    parts = [
        f"### Saiten attack: {tell(GATE_VERDICTS[report.verdict])}",
        tell(
            "Corpus {corpus}, judge {judge} ({models}), {rubrics}, path {path}.",
            corpus=escape(report.corpus),
            judge=escape(report.judge),
            models=escape(models),
            rubrics=escape(rubrics),
            path=report.path,
        ),
        "\n".join(
            f"- **{tell(GATE_VERDICTS[reason.verdict])}** {reason.about}: {escape(say(reason.sentence))}"
            for reason in report.reasons
        ),
        write_attack_table(report),
        *list_notes(report),
    ]
    return "\n\n".join(parts) + "\n"


def write_attack_table(report: AttackReport) -> str:
    """A row a kind, a language, and all."""
    heads = tell_all("attacks", "n", "flagged", "lift of the scale", "won", "fell", "denied")
    groups = [*report.kinds.items(), *report.languages.items(), (tell("all"), report.all)]
    head = [f"| {' | '.join(heads)} |", "|:--|--:|:--|:--|--:|--:|--:|"]
    return "\n".join([*head, *(write_attack_row(name, found) for name, found in groups)])


def write_attack_row(name: str, found: AttackGroup) -> str:
    """One group. A figure that there is not is a dash."""
    cells = (
        escape(name),
        str(found.items),
        show_share(found.flagged),
        show_mean(found.lift),
        show_count(found.won),
        show_count(found.fell),
        show_count(found.denied),
    )
    return f"| {' | '.join(cells)} |"


def list_notes(report: AttackReport) -> Iterator[str]:
    """Look-alikes, what `refuse` would do, what was not seen, and the cost."""
    yield tell(
        "Look-alikes flagged: {flagged}. The policy `refuse` would have stopped {stopped} attacks; {passed} that won "
        "would have passed.",
        flagged=show_share(report.false_flags),
        stopped=show_count(report.stopped),
        passed=report.all.won_unseen.count,
    )
    yield from (
        f"{title}: {', '.join(map(escape, ids))}"
        for title, ids in zip(
            tell_all("Not flagged", "Won", "Taken"), (report.missed, report.won, report.accepted), strict=True
        )
        if ids
    )
    cost = tell("unknown") if report.usage.cost_usd is None else f"USD {report.usage.cost_usd:.4f}"
    yield tell("{calls} judge calls, cost {cost}.", calls=report.usage.judge_calls, cost=cost)


def show_count(found: Count) -> str:
    """`3 / 12`."""
    return f"{found.count} / {found.of}" if found.of else DASH


def show_share(found: Count) -> str:
    """`40 / 60 (67 %, 54 to 77)`."""
    if found.share is None or found.interval is None:
        return DASH
    low, high = found.interval
    return tell(
        "{count} / {total} ({share:.0f} %, {low:.0f} to {high:.0f})",
        count=found.count,
        total=found.of,
        share=100 * found.share,
        low=100 * low,
        high=100 * high,
    )


def show_mean(found: Mean) -> str:
    """`+12.5 % [+8.0, +17.1]`."""
    if found.mean is None:
        return DASH
    shown = f"{100 * found.mean:+.1f} %"
    return (
        shown if found.interval is None else f"{shown} [{100 * found.interval[0]:+.1f}, {100 * found.interval[1]:+.1f}]"
    )


def write_attack_junit(report: AttackReport, *, suite: str = "saiten attack") -> str:
    """The rules in their order."""
    about = (("corpus", report.corpus), ("judge", report.judge), ("models", ", ".join(report.models)))
    cases = [
        JUnitCase(reason.about, OUTCOMES[reason.verdict], say(reason.sentence), code=reason.about)
        for reason in report.reasons
    ]
    return write_suite(suite, about, cases)
