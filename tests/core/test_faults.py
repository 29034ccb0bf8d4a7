"""Several faults in one error, each at its place."""

import pytest
from pydantic import BaseModel, ValidationError, model_validator

from saiten_server.core.model import Location, refuse, repeated
from tests.support.faults import words


class Part(BaseModel):
    a: int

    @model_validator(mode="after")
    def _check(self) -> "Part":
        refuse("Part", [(("a",), words("is {odd}")), ((), words("is alone"))] if self.a % 2 else [])
        return self


class Whole(BaseModel):
    parts: list[Part]


def test_every_fault_keeps_its_place_within_the_whole():
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate({"parts": [{"a": 2}, {"a": 3}]})
    assert [(error["loc"], error["msg"]) for error in caught.value.errors()] == [
        (("parts", 1, "a"), "is {odd}"),
        (("parts", 1), "is alone"),
    ]


def test_no_fault_raises_nothing():
    assert Whole.model_validate({"parts": [{"a": 2}]}).parts[0].a == 2


def test_repeated_gives_every_place_after_the_first():
    values: dict[Location, str] = {(0,): "x", (1,): "y", (2,): "x", (3,): "x"}
    assert [place for place, _ in repeated(values)] == [(2,), (3,)]
