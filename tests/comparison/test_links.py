"""Which link shows a run on another judge's scale."""

from datetime import UTC, datetime

from saiten_server.comparison.links.service import choose_link
from saiten_server.comparison.links.values import AspectLink, Link


def make_link(name: str, state: str, new: str = "judge:b") -> Link:
    aspect = AspectLink.model_validate({"state": state, "reason": None, "n": 100, "correlation": None})
    return Link(
        id=name,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        old="ba_1",
        new="ba_2",
        old_signature="judge:a",
        new_signature=new,
        aspects={"overall": aspect},
    )


def test_a_link_that_links_nothing_hides_none_that_does() -> None:
    fresh, older, oldest = (make_link(*one) for one in (("3", "refused"), ("2", "linked"), ("1", "linked")))
    other = make_link("4", "linked", new="judge:c")
    assert choose_link([other, fresh, older, oldest], ["judge:a"], ["judge:b"]) == older
    assert choose_link([other, fresh], ["judge:a"], ["judge:b"]) == fresh
    assert choose_link([other], ["judge:a"], ["judge:b"]) is None
    assert choose_link([fresh], ["judge:b"], ["judge:b"]) is None
