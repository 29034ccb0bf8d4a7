"""Logs of messengers: each response of the system is an item, and without its name the error lists who speaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from saiten.formats import UnreadableInput, read_items

KAKAO = (
    'Date,User,Message\r\n2026-11-20 10:01:22,"김민수","배송 언제 와요?"\r\n'
    '2026-11-20 10:02:05,"쇼핑봇","주문 번호를 알려 주시면\n확인해 드릴게요."\r\n'
    '2026-11-21 10:03:11,"김민수","12345요"\r\n2026-11-21 10:03:40,"쇼핑봇","내일 도착합니다."\r\n'
)
KAKAO_TEXT = """쇼핑봇 님과 카카오톡 대화\r
저장한 날짜 : 2026-11-22 09:12:33\r
\r
--------------- 2026년 11월 20일 금요일 ---------------\r
[김민수] [오전 10:01] 배송 언제 와요?\r
[쇼핑봇] [오전 10:02] 주문 번호를 알려 주시면\r
확인해 드릴게요.\r
--------------- 2026년 11월 21일 토요일 ---------------\r
[김민수] [오전 10:03] 12345요\r
[쇼핑봇] [오전 10:03] 내일 도착합니다.\r
"""
KAKAO_PHONE = """쇼핑봇 님과 카카오톡 대화
저장한 날짜 : 2026년 11월 22일 오전 9:12

2026년 11월 20일 오전 10:01, 김민수 : 배송 언제 와요?
2026년 11월 20일 오전 10:02, 쇼핑봇 : 주문 번호를 알려 주시면
확인해 드릴게요.
2026년 11월 21일 오전 10:03, 김민수 : 12345요
2026년 11월 21일 오전 10:03, 쇼핑봇 : 내일 도착합니다.
"""
LINE = (
    "[LINE] 쇼핑봇とのトーク履歴\r\n保存日時：2026/11/22 09:12\r\n\r\n2026/11/20(金)\r\n10:01\t김민수\t배송 언제 와요?\r\n"
    '10:02\t쇼핑봇\t"주문 번호를 알려 주시면\n확인해 드릴게요."\r\n10:02\t김민수がメッセージの送信を取り消しました\r\n'
    "\r\n2026/11/21(土)\r\n10:03\t김민수\t12345요\r\n10:03\t쇼핑봇\t내일 도착합니다.\r\n"
)
SLACK = json.dumps(
    [
        {"type": "message", "subtype": "channel_join", "user": "김민수", "text": "joined", "ts": "1795168880.1"},
        {"type": "message", "user": "김민수", "text": "배송 언제 와요?", "ts": "1795168881.1"},
        {"type": "message", "bot_id": "쇼핑봇", "text": "주문 번호를 알려 주시면", "ts": "1795168883.1"},
        {"type": "message", "bot_id": "쇼핑봇", "text": "확인해 드릴게요.", "ts": "1795168884.1"},
        {"type": "message", "user": "김민수", "text": "12345요", "ts": "1795268890.1"},
        {"type": "message", "bot_id": "쇼핑봇", "text": "내일 도착합니다.", "ts": "1795268891.1"},
    ]
)
LOGS = {
    "kakao.csv": KAKAO.encode("utf-8-sig"),
    "kakao.txt": KAKAO_TEXT.encode("utf-8-sig"),
    "phone.txt": KAKAO_PHONE.encode("cp949"),
    "line.txt": LINE.encode("utf-8-sig"),
    "slack.json": SLACK.encode(),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_of_a_messenger(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(LOGS[name])
    with pytest.raises(UnreadableInput) as refused:
        list(read_items(path))
    assert "is a chat of " in refused.value.detail
    assert "김민수 (2)" in refused.value.detail
    assert "--system '쇼핑봇' --output items.ndjson" in refused.value.detail
    with pytest.raises(UnreadableInput, match="no one is called 없는봇 here; there are "):
        list(read_items(path, system="없는봇"))
    reader = read_items(path, system="쇼핑봇")
    found = [item.value for item in reader]
    assert [(item["context"], item["response"]) for item in found] == [
        ([{"speaker": "user", "text": "배송 언제 와요?"}], "주문 번호를 알려 주시면\n확인해 드릴게요."),
        ([{"speaker": "user", "text": "12345요"}], "내일 도착합니다."),
    ]
    assert len({item["dialogue"] for item in found}) == 2, "days are dialogues"
    assert reader.report.items == 2


def test_an_account_of_line_is_known_as_the_system(tmp_path: Path) -> None:
    path = tmp_path / "account.csv"
    rows = ["送信者タイプ,送信者名,送信日,送信時刻,内容", "User,山田,2026/11/20,10:01:00,予約したい"]
    rows += ["Account,予約係,2026/11/20,10:01:30,何時ですか"]
    path.write_text("\r\n".join([*rows, ""]), encoding="utf-8-sig")
    (item,) = read_items(path)
    assert (item.value["context"][0]["text"], item.value["response"]) == ("予約したい", "何時ですか")


def say(key: str, parent: str | None, role: str, text: str) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    return {"id": key, "parent": parent, "children": [], "message": {"author": {"role": role}, "content": content}}


def test_conversations_of_chatgpt_are_read_along_the_branch_shown_last(tmp_path: Path) -> None:
    nodes = [say("s", None, "system", ""), say("a", "s", "user", "明日は？"), say("b", "a", "assistant", "晴れです。")]
    nodes += [
        say("c", "b", "user", "傘は？"),
        say("d", "c", "assistant", "別案"),
        say("e", "c", "assistant", "不要です。"),
    ]
    export = {
        "title": "天気",
        "mapping": {node["id"]: node for node in nodes},
        "current_node": "e",
        "conversation_id": "v",
    }
    circle = {**export, "mapping": {"a": say("a", "a", "user", "x")}, "current_node": "a", "conversation_id": "w"}
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([export, circle]), encoding="utf-8")
    reader = read_items(path)
    found = [item.value for item in reader]
    assert [(item["id"], len(item["context"]), item["response"]) for item in found] == [
        ("v-1", 1, "晴れです。"),
        ("v-3", 3, "不要です。"),
    ]
    assert any("has no response" in line for line in reader.report.lines())
