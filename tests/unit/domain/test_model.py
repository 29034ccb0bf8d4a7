"""Digests are those of canonical JSON, however they are taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.domain.model import digest, digest_texts

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from(['"', "\\", "\n", "\x00", "\u2028", "文"]), max_size=8)


@given(st.lists(TEXTS, max_size=4))
def test_texts_have_the_digest_of_their_list(texts: list[str]) -> None:
    assert digest_texts(*texts) == digest(texts)
