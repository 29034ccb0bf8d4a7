"""Invisible characters by their code points, and nothing else changed."""

import unicodedata

from saiten_server.platform.web.page import is_unseen, reveal

SEEN = "日本語の「文」、か\u3099 한국어 é e\u0301\n\ttab \ue000 👍"
UNSEEN = "\u200b\u200d\u202e\u2066\u00ad\ufeff\u3164\u3000\u00a0\x07\ufe0f\U000e0041\u2028\u034f"


def test_what_is_seen_stays_and_what_is_not_is_named() -> None:
    assert str(reveal(SEEN)) == SEEN
    assert all(map(is_unseen, UNSEEN))
    shown = reveal(f"a{UNSEEN}<b>")
    assert not any(character in shown for character in UNSEEN)
    assert shown.count('<span class="unseen"') == len(UNSEEN)
    assert 'title="RIGHT-TO-LEFT OVERRIDE" dir="ltr">U+202E</span>' in shown
    assert shown.endswith("&lt;b&gt;")
    # However many there are of one, it is told once.
    assert str(reveal("\u200b" * 100_000)) == (
        f'<span class="unseen" title="{unicodedata.name(chr(0x200B))}" dir="ltr">U+200B ×100000</span>'
    )
