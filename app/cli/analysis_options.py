"""What `saiten analyze` is told: the options of each analysis, and what its help says."""

from __future__ import annotations

import math

import click

ABOUT = {
    "agreement": "How far raters agree, and how aspects go together.",
    "correlation": "How far scores follow people's ratings.",
    "hierarchy": "Which aspect merely follows another.",
    "composite-fit": "Fit the weights of a linear composite, such as MATE.",
    "blend-fit": "Choose the weight of the relevance term.",
    "win-rates": "How often each system answers a context best.",
}
METRICS = "Measure responses: length, ROUGE, BERTScore, perplexity."

MORE = {
    "agreement": (
        "By aspect: mean, sd, each rater against the mean of the others, Krippendorff's α; and the correlations "
        "between aspects."
    ),
    "correlation": (
        "Values of a metric or a judge, in the records' field \"scores\" (--scores names another), against the raters' "
        "means: Spearman, Pearson and Kendall with bootstrap intervals over dialogues, human ceiling, bias, means."
    ),
    "hierarchy": (
        "Y depends on X where every pair of systems that X tells apart (Mann-Whitney, p < alpha) is told apart by Y "
        "the same way, and others too. Prints which aspects depend on which, and how many pairs remain after the lower "
        "is removed from the higher. Without --rubric more counts as better; a rubric may say that another level is "
        "best."
    ),
    "composite-fit": (
        "Least squares of the target on the composite's aspects, and how well it does on a held-out fifth. The rubric "
        "is lfqa unless --rubric names another."
    ),
    "blend-fit": (
        "The weight w of score + w * similarity that correlates best with the raters, by cross-validation. Records "
        'need "scores" and "similarity" beside "ratings".'
    ),
    "win-rates": (
        "The share of contexts (items) in which each system is the best, ties apart, with Wilson's interval. "
        "Without --rubric more counts as better; a rubric may say that another level is best."
    ),
}

EXAMPLES = {
    "agreement": ["ratings.ndjson", "dbdc3.jsonl --labels O=1,T=0.5,X=0"],
    "correlation": ["ratings.csv --scores unieval"],
    "hierarchy": ["ratings.ndjson --alpha 0.01 --plot hierarchy.png"],
    "composite-fit": ["answers.ndjson --rubric lfqa --composite mate"],
    "blend-fit": ["ratings.ndjson --aspect relevance --folds 5"],
    "win-rates": ["--batch ba_1 --batch ba_2 --url http://127.0.0.1:8000"],
}


SOURCE = [
    click.Argument(["file"], metavar="[FILE|-]", required=False),
    click.Option(
        ["--batch"], metavar="ID", multiple=True, help="A batch and its human ratings, not FILE; may be repeated."
    ),
    click.Option(["--url"], metavar="URL", help="The service that has the batch; its key comes from SAITEN_API_KEY."),
    click.Option(
        ["--format", "form"], type=click.Choice(["ndjson", "json", "csv"]), help="Default: by name or content."
    ),
    click.Option(
        ["--rubric"], metavar="ID", help="Refuse aspects and ratings that are not this rubric's; take its best levels."
    ),
    click.Option(["--aspects"], metavar="A,B,C", help="Refuse any aspect but these; tables keep their order."),
    click.Option(["--scores", "scores_field"], metavar="FIELD", help="Where a metric's values are (scores)."),
    click.Option(
        ["--labels"], metavar="O=1,T=0.5,X=0", help='What the letters in the field "labels" are worth, one per rater.'
    ),
    click.Option(["--label-aspect"], metavar="NAME", help="What the labels rate (label)."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print the answer of POST /v1/analyses."),
    click.Option(["--plot"], metavar="FILE", help="Draw it: .png, .svg or .pdf."),
]

SEED = click.Option(["--seed"], type=int, metavar="N", help="The same seed gives the same figures (0).")
VALUES = click.Option(["--values"], type=click.Choice(["ratings", "scores"]), help="Take the ratings, or the scores.")

OWN: dict[str, list[click.Parameter]] = {
    "agreement": [],
    "correlation": [
        click.Option(
            ["--match"], metavar="mate=acceptability", help="Hold a score against a rating of another name; A=B,C=D."
        ),
        click.Option(["--resamples"], type=int, metavar="N", help="Of the bootstrap (2000)."),
        SEED,
    ],
    "hierarchy": [
        click.Option(["--alpha"], type=float, metavar="P", help="A pair is significant below it (0.01)."),
        click.Option(
            ["--method"],
            type=click.Choice(["principal-axis", "residual"]),
            help="How the lower aspect is removed from the higher.",
        ),
        VALUES,
    ],
    "composite-fit": [
        click.Option(["--composite"], metavar="ID", help="A linear composite of the rubric (its first)."),
        click.Option(["--target"], metavar="NAME", help="The aspect that it is to give (acceptability)."),
        SEED,
    ],
    "blend-fit": [
        click.Option(["--aspect"], metavar="NAME", help="The blended aspect (relevance)."),
        click.Option(["--folds"], type=int, metavar="N", help="Of the cross-validation (5)."),
        click.Option(["--statistic"], type=click.Choice(["spearman", "pearson"]), help="Make this the greatest."),
        SEED,
    ],
    "win-rates": [VALUES],
}


def options_of(name: str) -> list[click.Parameter]:
    """The parameters of one analysis, its own first."""
    return [*OWN[name], *SOURCE]


def make_help(name: str) -> str:
    """What it does, how, and an example."""
    examples = "".join(f"\n  saiten analyze {name} {example}" for example in EXAMPLES[name])
    return f"{ABOUT[name]}\n\n{MORE[name]}\n\n\b\nExample:{examples}"


def read_aspects(text: str) -> list[str]:
    """`a, b` as names; raises BadParameter."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise click.BadParameter(f"write --aspects like fluency,relevance, not {text[:48]!r}")
    return names


def read_match(text: str) -> dict[str, str]:
    """`mate=acceptability` as scores with the ratings that they are held against; raises BadParameter."""
    pairs = [part.partition("=") for part in text.split(",")]
    found = {score.strip(): rating.strip() for score, _, rating in pairs}
    if not all(found) or not all(found.values()) or len(found) < len(pairs):
        raise click.BadParameter(f"write --match like mate=acceptability, each score once, not {text[:48]!r}")
    return found


def read_labels(text: str) -> dict[str, float]:
    """`O=1,T=0.5,X=0` as letters with their ratings; raises BadParameter."""
    found: dict[str, float] = {}
    for part in text.split(","):
        letter, _, value = part.partition("=")
        letter = letter.strip()
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if len(letter) != 1 or not math.isfinite(number):
            raise click.BadParameter(
                f"write --labels like O=1,T=0.5,X=0, a letter and a number each, not {part[:24]!r}"
            )
        if letter in found:
            raise click.BadParameter(f"--labels has {letter!r} twice")
        found[letter] = number
    return found
