"""The gate's report as Markdown."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from saiten.commands.markdown import escape
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.values import ComparedRun, GateRule
from tests.support.gates import FAILED, INCONCLUSIVE, make_report, write_markdown
from tests.support.judge_checks import make_check
from tests.support.runs import make_run, rows_of, with_rows

GOLDEN = """\
### Saiten gate: fail

Candidate run **pr-17** against **main**, alpha 0.05; paired\\: 12 of the smaller run's 12 items are in the other run too; \
no dialogues are known, so that items are the units.

- **fail** warmth (max\\_drop 0): fell by 0.833 (from 5.000 to 4.167; 95% interval of the difference -1.901 to -0.586; \
p = 0.002 after Holm over 1; 12 pairs)\\: beyond chance, and as observed more than the 0 tolerated; a drop of 0.606 would be seen with 80% \
power
- **pass** coverage: 24 of 24 verdicts of the candidate run (100.00%); 24 of 24 verdicts of the baseline run \
(100.00%); 12 of 12 items in pairs (100.00%); at least 98% of each must be there
- **pass** clarity (max\\_drop 0, min\\_mean 2): no value differs between the runs (12 pairs); a drop of up to 0.884 may not have shown; the mean is 3.000 \
(12 items), at least 2 is asked for; its 95% interval, with 1 value added at the scale's lower end, ends at 2.511

| measure | baseline | candidate | difference [95%] | p adj. | n | detectable | won / tied / lost | verdict |
|:--|--:|--:|:--|--:|--:|--:|--:|:--|
| warmth | 5.000 | 4.167 | -0.833 [-1.901, -0.586] | 0.002 | 12 | 0.606 | 0 / 2 / 10 | worse |
| clarity | 3.000 | 3.000 | +0.000 | 1 | 12 | – | 0 / 12 / 0 | same |

<details><summary>How this was scored</summary>

```
saiten:1|rubric:small@1|model:judge-1:8b
```

</details>
"""


def test_a_report_becomes_a_comment():
    assert write_markdown(make_report(FAILED)) == GOLDEN


def test_what_made_the_rules_void_comes_first():
    lines = write_markdown(make_report(INCONCLUSIVE)).splitlines()
    assert lines[0] == "### Saiten gate: inconclusive"
    assert [line.split(":")[0] for line in lines if line.startswith("- ")] == [
        "- **inconclusive** coverage",
        "- **inconclusive** warmth (max\\_drop 0)",
        "- **pass** clarity (max\\_drop 0, min\\_mean 2)",
    ]


def test_where_the_judge_moved_the_headline_says_so_and_no_rule_has_failed():
    text = write_markdown(make_report(FAILED, judge=make_check("moved")))
    lines = text.splitlines()
    assert lines[0] == "### Saiten gate: inconclusive (judge moved)"
    assert [line.split(": ")[0] for line in lines if line.startswith(("- ", "While"))] == [
        "- **inconclusive** judge",
        "- **pass** coverage",
        "While the judge rates differently, its ratings say nothing about the system",
        "- warmth (max\\_drop 0)",
        "- clarity (max\\_drop 0, min\\_mean 2)",
    ]
    assert "What the rules found is not decisive:\n\n- warmth (max\\_drop 0): fell by 0.833" in text
    assert "**fail**" not in text
    steady = write_markdown(make_report(FAILED, judge=make_check("steady")))
    assert steady.startswith("### Saiten gate: fail\n")
    assert "- **fail** warmth" in steady
    assert "not decisive" not in steady


def test_without_a_baseline_there_is_no_table():
    report = judge_gate(make_run("new", {"warmth": [1, 2, 3]}), None, [GateRule(aspect="warmth", min_mean=1)])
    text = write_markdown(report)
    assert "Candidate run **new**, alpha 0.05." in text
    assert "|:--" not in text


def test_what_is_not_known_is_a_dash_in_the_table():
    runs = make_run("new", {"warmth": [1, 2]}), make_run("old", {"warmth": [2, None]})
    row = "| warmth | 2.000 | 1.000 | -1.000 | – | 1 | – | 0 / 0 / 1 | no change shown |"
    assert row in write_markdown(judge_gate(*runs))
    row = "| warmth | 2.000 | 1.500 | -0.500 | – | 1 / 2 | – | – | no change shown |"
    assert row in write_markdown(judge_gate(*runs, test="unpaired"))


def test_dialogues_are_counted_beside_their_items():
    def make(name: str, column: Sequence[float | None]) -> ComparedRun:
        run = make_run(name, {"warmth": column})
        items = [replace(item, cluster=f"d{number % 6}") for number, item in enumerate(rows_of(run))]
        return with_rows(run, items)

    new, old = make("new", FAILED), make("old", [4.0] * 12)
    text = write_markdown(judge_gate(new, old))
    assert "; the units are 6 dialogues, as the candidate run has them." in text
    assert "12 pairs in 6 dialogues" in text
    assert "| 12 in 6 |" in text
    assert "| 12 in 6 / 12 in 6 |" in write_markdown(judge_gate(new, old, test="unpaired"))


def test_differing_pieces_and_notes_are_shown():
    new = make_run("new", {"warmth": [1, 2, 3]}, signatures={"model:a ```` b|weight:1": 3})
    old = make_run("old", {"warmth": [1, 2, 3]}, signatures={"model:c|weight:1": 3}, best={"warmth": 2.0})
    text = write_markdown(judge_gate(new, old, allow_signature_mismatch=True))
    # The fence is longer than any that the text could close it with.
    assert "`````\nmodel:a ```` b|weight:1\nmodel: c -> a ```` b\n`````" in text
    assert (
        "Warmth is best at 2\\: it is compared by minus its distance from that; the mean rating is 2.000 before" in text
    )
    assert "| warmth (minus distance from 2) | -0.667 | -0.667 | +0.000 |" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b `c` <b> [x](y) *_~", "a\\|b \\`c\\` \\<b\\> \\[x\\](y) \\*\\_\\~"),
        ("one\n\n# two", "one # two"),
        ("@alice fixes #12", "@\u2060alice fixes #\u206012"),
        ("back\\|slash", "back\\\\\\|slash"),
        ("www.evil.example", "www\u2060.evil.example"),
        ("https://evil.example", "https\\:\u2060//evil.example"),
        ("98% of 3 @ 4: pr-17, UTF-", "98% of 3 @ 4\\: pr-17, UTF-"),
    ],
)
def test_a_callers_text_cannot_be_markup(text, shown):
    assert escape(text) == shown


LINKED = re.compile(
    r"""(?i:[a-z][a-z0-9+.-]*):// | (?i:www)\. | (?:mailto|xmpp):\w | \w@\w
    | [@#!$&~:]\w | \*\w+:\w | %[\w"] | :\+1: | (?i:g[hl])-\d | [A-Z]{2,}-\d""",
    re.VERBOSE,
)
"""What GitHub or GitLab make a link, a mention or an emoji of, in a text as it is rendered."""


@pytest.mark.parametrize(
    "text",
    [
        *(
            "http://evil.example/a?b=c",
            "HTTPS://evil.example",
            "ftp://evil.example",
            "www.evil.example/x",
            "WWW.evil.example",
        ),
        *("me@evil.example", "mailto:me@evil.example", "xmpp:me@evil.example/x", "@alice", "@group/team", "採点@alice"),
        *("#12", "org/repo#12", "!3", "%4", '%"next one"', "$5", "&6", "~bug", "~バグ", "*iteration:7", "[issue:8]"),
        *("GH-12", "gh-12", "採点GH-12", "GL-3", "SAITEN-4", "(GH-12)", ":smile:", ":+1:"),
    ],
)
def test_a_callers_text_cannot_be_a_link_nor_reach_anybody(text):
    assert LINKED.search(text)
    # A backslash before punctuation is not shown (CommonMark 0.31, 2.4).
    rendered = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", escape(text))
    assert not LINKED.search(rendered)
    assert rendered.replace("\u2060", "") == text


def test_a_name_cannot_break_the_table_nor_notify_anybody():
    text = write_markdown(make_report(FAILED, candidate="x | y\n| z |", baseline="@team `"))
    assert "**x \\| y \\| z \\|** against **@\u2060team \\`**" in text
    assert "@team" not in text
