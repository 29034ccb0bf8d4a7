"""The headers that every answer has, and which of them an answer may have of its own."""

from saiten_server.platform.web.middleware import RAW_SAFE_HEADERS, add_headers


def test_an_answer_keeps_its_own_and_gets_the_id_and_the_safe_ones() -> None:
    given = [(b"content-type", b"application/json"), (b"set-cookie", b"a"), (b"set-cookie", b"b")]
    assert add_headers(given, "id", {}) == [*given, (b"x-request-id", b"id"), *RAW_SAFE_HEADERS]


def test_another_id_or_allowance_is_replaced() -> None:
    given = [(b"x-request-id", b"theirs"), (b"ratelimit", b"theirs")]
    found = add_headers(given, "ours", {"RateLimit": "r=1"})
    assert [pair for pair in found if pair not in RAW_SAFE_HEADERS] == [
        (b"ratelimit", b"r=1"),
        (b"x-request-id", b"ours"),
    ]


def test_a_page_may_be_safer_than_the_rest() -> None:
    found = dict(add_headers([(b"referrer-policy", b"same-origin")], "id", {}))
    assert found[b"referrer-policy"] == b"same-origin"
    assert len(found) == 1 + len(RAW_SAFE_HEADERS)
