"""Digests are those of canonical JSON, however they are taken."""

import json

from hypothesis import given
from hypothesis import strategies as st

from saiten_server.core.model import ENCODED_CHARACTERS, digest, digest_texts, encode_pieces

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from(['"', "\\", "\n", "\x00", "\u2028", "文"]), max_size=8)


@given(st.lists(TEXTS, max_size=4))
def test_texts_have_the_digest_of_their_list(texts: list[str]) -> None:
    assert digest_texts(*texts) == digest(texts)


def test_long_texts_are_encoded_piece_by_piece() -> None:
    text = ("あ" * (ENCODED_CHARACTERS - 1) + '"\\\n😀') * 3
    pieces = [*encode_pieces(text)]
    assert b"".join(pieces) == json.dumps(text, ensure_ascii=False).encode()
    assert max(map(len, pieces)) <= 3 * (ENCODED_CHARACTERS + 8)
    assert digest_texts(text, "文", text) == digest([text, "文", text])
