from xml.etree import ElementTree

import pytest

from app.charts.svg import clean_svg

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9" height="8" viewBox="0 0 9 8">'


def clean(content: str) -> str:
    cleaned = clean_svg(f"{HEAD}{content}</svg>", title="t", description="")
    return cleaned.partition('<g aria-hidden="true">')[2].removesuffix("</g></svg>")


@pytest.mark.parametrize(
    "content",
    [
        "<script>alert(1)</script>",
        "<style>*{fill:red}</style>",
        '<a xlink:href="javascript:x"><text>a</text></a>',
        '<image href="http://x/y.png"/>',
        '<foreignObject><body xmlns="http://www.w3.org/1999/xhtml"/></foreignObject>',
        '<defs><clipPath id="clip0"/></defs>',
        '<use href="#a"/>',
        '<script xmlns="http://www.w3.org/1999/xhtml">x</script>',
    ],
)
def test_keeps_no_element_that_a_chart_does_not_need(content: str) -> None:
    assert clean_svg(f"{HEAD}{content}</svg>", title="t", description="").endswith('<g aria-hidden="true" /></svg>')


def test_keeps_no_attribute_that_a_chart_does_not_need() -> None:
    content = '<line id="a" style="x" onclick="y" href="z" tabindex="0" role="b" aria-label="c" class="mark" x2="3"/>'
    assert clean(content) == '<line x2="3" />'


def test_leaves_out_what_is_not_seen() -> None:
    unseen = '<path d="" stroke="red"/><path class="background" d="M0,0h9v9h-9Z"/><path d="M0,0h9" display="none"/>'
    assert clean(f'<g transform="translate(5,5)"><g>{unseen}</g></g><g><path d="M0,0h1" fill="red"/></g>') == (
        '<path d="M0,0h1" fill="red" />'
    )


def test_shortens_numbers_but_no_texts() -> None:
    drawn = '<text transform="translate(33.33333333,-0.0000001)" font-size="11px">0.123456</text>'
    assert clean(drawn) == '<text transform="translate(33.33,-0)" font-size="11px">0.123456</text>'


def test_names_marks_by_their_layer() -> None:
    assert clean('<g class="mark-rect role-mark bars_marks"><line x2="1"/></g>') == (
        '<g class="chart-bars"><line x2="1" /></g>'
    )


@pytest.mark.parametrize(
    ("title", "description", "label"),
    [("a", "b", "a. b"), ("一覧。", "説明", "一覧。 説明"), ("", "b", "b"), ("a", " ", "a"), ('"&<', "", '"&<')],
)
def test_labels_with_title_and_description(title: str, description: str, label: str) -> None:
    root = ElementTree.fromstring(clean_svg(f"{HEAD}</svg>", title=title, description=description))
    assert root.get("aria-label") == label
