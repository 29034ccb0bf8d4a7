"""Logs of messengers: each response of the system is an item, and without its name the error lists who speaks."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from saiten.core.formats import UnreadableInput, read_items

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
LINE_KOREAN = (
    "[LINE] 쇼핑봇님과의 대화\r\n저장한 날짜: 2026.11.22 09:12\r\n\r\n2026.11.20 금요일\r\n오전 10:01\t김민수\t배송 언제 와요?\r\n"
    '오전 10:02\t쇼핑봇\t"주문 번호를 알려 주시면\n확인해 드릴게요."\r\n\r\n2026.11.21 토요일\r\n오전 10:03\t김민수\t12345요\r\n'
    "오전 10:03\t쇼핑봇\t내일 도착합니다.\r\n"
)
LINE_ENGLISH = (
    "[LINE] Chat history with 쇼핑봇\nSaved on: 11/22/2026, 09:12\n\nFri, 11/20/2026\n10:01AM\t김민수\t배송 언제 와요?\n"
    '10:02AM\t쇼핑봇\t"주문 번호를 알려 주시면\n확인해 드릴게요."\n10:02AM\t김민수 unsent a message.\n\nSat, 11/21/2026\n'
    "10:03AM\t김민수\t12345요\n10:03AM\t쇼핑봇\t내일 도착합니다.\n"
)
LINE_SPACED = """2026.11.20 金曜日
10:01 김민수 배송 언제 와요?
10:02 쇼핑봇 주문 번호를 알려 주시면
확인해 드릴게요.
2026.11.21 土曜日
10:03 김민수 12345요
10:03 쇼핑봇 내일 도착합니다.
"""
KAKAO_ENGLISH = """KakaoTalk Chats with 쇼핑봇
Date Saved : 2026-11-22 09:12:33

--------------- Friday, November 20, 2026 ---------------
[김민수] [10:01 AM] 배송 언제 와요?
[쇼핑봇] [10:02 AM] 주문 번호를 알려 주시면
확인해 드릴게요.
--------------- Saturday, November 21, 2026 ---------------
[김민수] [10:03 AM] 12345요
[쇼핑봇] [10:03 AM] 내일 도착합니다.
"""
KAKAO_JAPANESE = """쇼핑봇 さんとのカカオトーク
保存日 : 2026-11-22 09:12:33

--------------- 2026年11月20日 金曜日 ---------------
[김민수] [午前 10:01] 배송 언제 와요?
[쇼핑봇] [午前 10:02] 주문 번호를 알려 주시면
확인해 드릴게요.
--------------- 2026年11月21日 土曜日 ---------------
[김민수] [午前 10:03] 12345요
[쇼핑봇] [午前 10:03] 내일 도착합니다.
"""
KAKAO_IPHONE = """쇼핑봇 님과 카카오톡 대화
저장한 날짜 : 2026. 11. 22. 오전 9:12


2026년 11월 20일 금요일
2026. 11. 20. 오전 10:01, 김민수 : 배송 언제 와요?
2026. 11. 20. 오전 10:02, 쇼핑봇 : 주문 번호를 알려 주시면
확인해 드릴게요.
2026년 11월 21일 토요일
2026. 11. 21. 오전 10:03: 김민수님이 들어왔습니다.
2026. 11. 21. 오전 10:03, 김민수 : 12345요
2026. 11. 21. 오전 10:03, 쇼핑봇 : 내일 도착합니다.
"""
KAKAO_ANDROID_ENGLISH = """KakaoTalk Chats with 쇼핑봇
Date Saved : November 22, 2026 at 9:12 AM

November 20, 2026 at 10:01 AM
November 20, 2026 at 10:01 AM, 김민수 : 배송 언제 와요?
November 20, 2026 at 10:02 AM, 쇼핑봇 : 주문 번호를 알려 주시면
확인해 드릴게요.

November 21, 2026 at 10:03 AM
November 21, 2026 at 10:03 AM, 김민수 : 12345요
November 21, 2026 at 10:03 AM, 쇼핑봇 : 내일 도착합니다.
"""


def discord(name: str, day: int, text: str, **more: Any) -> dict[str, Any]:
    """A message as DiscordChatExporter writes it."""
    author = {"id": name, "name": f"{name}#1", "nickname": name, "isBot": name == "쇼핑봇", "roles": []}
    message = {"id": "1", "type": "Default", "timestamp": f"2026-11-{day}T10:01:00.000+09:00", "isPinned": False}
    return {**message, "content": text, "author": author, "attachments": [], "embeds": [], "stickers": [], **more}


DISCORD = {
    "guild": {"id": "1", "name": "店"},
    "channel": {"id": "2", "type": "GuildTextChat", "name": "help", "topic": None},
    "dateRange": {"after": None, "before": None},
    "messages": [
        discord("김민수", 20, "", type="GuildMemberJoin"),
        discord("김민수", 20, "배송 언제 와요?"),
        discord("쇼핑봇", 20, "주문 번호를 알려 주시면", type="Reply", reference={"messageId": "1"}),
        discord("쇼핑봇", 20, "확인해 드릴게요."),
        discord("김민수", 21, "12345요"),
        discord("쇼핑봇", 21, "내일 도착합니다."),
    ],
    "messageCount": 6,
}
DISCORD_CSV = (
    "AuthorID,Author,Date,Content,Attachments,Reactions\n"
    '"1","김민수","2026-11-20T10:01:00.0000000+09:00","배송 언제 와요?","",""\n'
    '"2","쇼핑봇","2026-11-20T10:02:00.0000000+09:00","주문 번호를 알려 주시면\n확인해 드릴게요.","","👍 (1)"\n'
    '"1","김민수","2026-11-21T10:03:00.0000000+09:00","12345요","",""\n'
    '"2","쇼핑봇","2026-11-21T10:03:00.0000000+09:00","내일 도착합니다.","",""\n'
)
LOGS = {
    "kakao.csv": KAKAO.encode("utf-8-sig"),
    "kakao.txt": KAKAO_TEXT.encode("utf-8-sig"),
    "phone.txt": KAKAO_PHONE.encode("cp949"),
    "kakao_en.txt": KAKAO_ENGLISH.encode(),
    "kakao_ja.txt": KAKAO_JAPANESE.encode(),
    "iphone.txt": KAKAO_IPHONE.encode(),
    "android_en.txt": KAKAO_ANDROID_ENGLISH.encode(),
    "line.txt": LINE.encode("utf-8-sig"),
    "line_ko.txt": LINE_KOREAN.encode("utf-8-sig"),
    "line_en.txt": LINE_ENGLISH.encode(),
    "line_pc.txt": LINE_SPACED.encode(),
    "slack.json": SLACK.encode(),
    "discord.json": json.dumps(DISCORD).encode(),
    "discord.csv": DISCORD_CSV.encode("utf-8-sig"),
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


STICKERS = (
    *("[スタンプ]", "[写真]", "スタンプ", "写真", "動画", "☎ 通話時間 1:23", "スタンプを送信しました"),
    *(
        "[스티커]",
        "[사진]",
        "이모티콘",
        "사진",
        "사진 3장",
        "삭제된 메시지입니다.",
        "파일: 영수증.pdf",
        "보이스톡 해요",
    ),
    *("[Sticker]", "[Photo]", "Photo", "Emoticons"),
)


def test_stickers_and_photos_are_no_responses(tmp_path: Path) -> None:
    """In every language of LINE and KakaoTalk; what answers one is skipped too, and parts no response in two."""
    for sticker in STICKERS:
        path = tmp_path / "log.txt"
        said = [("민수", "안녕하세요"), ("봇", sticker), ("봇", "안녕하세요!"), ("민수", sticker), ("봇", "귀엽네요.")]
        said += [
            ("민수", "고마워요"),
            ("봇", "천만에요."),
            ("봇", sticker),
            ("봇", "또 오세요."),
            ("민수", "네"),
            ("봇", sticker),
        ]
        path.write_text("[LINE] 봇\n\n2026/11/20(金)\n" + "".join(f"10:01\t{who}\t{text}\n" for who, text in said))
        reader = read_items(path, system="봇")
        found = [(item.value["context"][-1]["text"], item.value["response"]) for item in reader]
        assert found == [("안녕하세요", "안녕하세요!"), ("고마워요", "천만에요.\n또 오세요.")], sticker
        assert (reader.report.skips, reader.report.rows) == (5, 11)
        told = "\n".join(reader.report.lines())
        assert "is a sticker, a photo or the like: line 5, line 7, line 11, line 14" in told
        assert "answers a sticker, a photo or the like: line 8" in told


def test_a_date_that_someone_wrote_is_no_day(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    text = "2026.11.20 금요일\n10:01 민수 언제 열어요?\n10:02 봇 다음 날짜입니다.\n2026.11.25\n2026/11/26(목)\n10:03 민수 네\n10:03 봇 네!\n"
    path.write_text(text)
    found = [item.value for item in read_items(path, system="봇")]
    assert [item["response"] for item in found] == ["다음 날짜입니다.\n2026.11.25\n2026/11/26(목)", "네!"]
    assert {item["dialogue"] for item in found} == {"2026-11-20"}
    path.write_text(
        '[LINE] 봇\n\n2026.11.20 금요일\n10:01\t민수\t"따옴표\n10:02\t봇\t네.\n\n2026.11.21 토요일\n10:01\t민수\t네\n10:02\t봇\t예.\n'
    )
    assert [item.value["dialogue"] for item in read_items(path, system="봇")] == ["2026-11-20", "2026-11-21"]


def test_a_name_with_spaces_where_lines_are_parted_by_spaces(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("2026.11.20 Friday\n10:01 Kim Minsu 배송은요?\n10:02 쇼핑 봇 내일 도착합니다.\n")
    (item,) = read_items(path, system="쇼핑 봇")
    assert item.value["response"] == "내일 도착합니다."


def pack(files: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in files.items():
            archive.writestr(name, value if isinstance(value, str) else json.dumps(value))
    return file.getvalue()


def slack(user: str, text: str, second: float, **more: Any) -> dict[str, Any]:
    return {"type": "message", "user": user, "text": text, "ts": f"{1795168880 + second}", "team": "T1", **more}


EXPORT: dict[str, Any] = {
    "channels.json": [{"id": "C1", "name": "help", "members": ["U1", "U2"]}],
    "users.json": [
        {"id": "U1", "name": "yamada", "real_name": "山田 花子", "profile": {"display_name": "山田"}, "is_bot": False},
        {"id": "U2", "name": "bot", "real_name": "案内係", "profile": {"display_name": ""}, "is_bot": True},
    ],
    "help/2026-11-20.json": [
        slack("U1", "has joined", 0, subtype="channel_join"),
        slack("U1", "<@U2> 返品できますか &amp; 送料は？", 1, thread_ts=f"{1795168880 + 1}"),
        slack("U1", "別件です", 2),
        slack("U2", "はい、<https://example.com/r|こちら>です。", 3, thread_ts=f"{1795168880 + 1}"),
        slack("U2", "どうぞ。", 4),
        slack("U1", "", 5, files=[{"id": "F1"}]),
        slack("U2", "きれいですね。", 6),
    ],
    "help/2026-11-21.json": [
        slack("U1", "ありがとう", 90_000, thread_ts=f"{1795168880 + 1}"),
        slack("U2", "いつでもどうぞ。", 90_001, thread_ts=f"{1795168880 + 1}"),
    ],
}


def test_an_export_of_slack_as_it_is_downloaded() -> None:
    reader = read_items(io.BytesIO(pack(EXPORT)), system="案内係")
    found = [item.value for item in reader]
    question = "@案内係 返品できますか & 送料は？"
    assert [([said["text"] for said in item["context"]], item["response"], item["dialogue"]) for item in found] == [
        ([question], "はい、こちらです。", "help 1795168881"),
        ([question, "はい、こちらです。", "ありがとう"], "いつでもどうぞ。", "help 1795168881"),
        (["別件です"], "どうぞ。", "help 2026-11-20"),
    ]
    assert reader.report.reads == "export of Slack"
    with pytest.raises(UnreadableInput, match=r"is a chat of 案内係 \(4\), 山田 \(3\)"):
        list(read_items(io.BytesIO(pack(EXPORT))))


def test_a_message_of_slack_with_fields_of_other_types_is_skipped() -> None:
    day = [{"subtype": {}, "type": [], "ts": {}, "text": [1], "user": {"a": 1}}]
    reader = read_items(io.BytesIO(pack({**EXPORT, "help/2026-11-20.json": day})), system="案内係")
    assert [item.value["response"] for item in reader] == ["いつでもどうぞ。"]
    assert reader.report.skips == 1


@pytest.mark.parametrize(
    ("day", "message"),
    [
        ("{", "help/2026-11-20.json: is not valid JSON"),
        ({"a": 1}, "help/2026-11-20.json: is no list of objects"),
        ([1], "help/2026-11-20.json: is no list of objects"),
        ("[" * 100_000, "help/2026-11-20.json: is nested too deeply"),
        (" " * 40_000_000, "unpacks to 40,000,"),
    ],
)
def test_a_hostile_export_of_slack_is_refused(day: Any, message: str) -> None:
    with pytest.raises(UnreadableInput, match=message):
        list(read_items(io.BytesIO(pack({**EXPORT, "help/2026-11-20.json": day})), system="案内係"))
