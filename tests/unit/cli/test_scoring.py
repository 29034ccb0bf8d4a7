"""What another service says is believed only where it is a result."""

from __future__ import annotations

import httpx
import pytest

from app.cli.scoring import read_answer


@pytest.mark.parametrize("content", [b"", b"<html>", b"[1]", b"\xff", b"null"])
def test_an_answer_that_is_no_object_is_empty(content: bytes) -> None:
    assert read_answer(httpx.Response(200, content=content)) == {}


def test_an_object_is_read() -> None:
    assert read_answer(httpx.Response(503, content=b'{"code": "busy"}')) == {"code": "busy"}
