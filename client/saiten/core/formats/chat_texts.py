"""The texts that LINE and KakaoTalk save a chat as, a message a line or several.

They are documented nowhere: the forms are those that public readers of exports know (2014 to 2026). Phones write
LINE's with a heading and tabs (`20:07<TAB>name<TAB>text`), PCs without a heading and with spaces (`20:07 name text`);
days look as the language wants (`2026/11/20(金)`, `2026.11.20 금요일`, `2026.11.20 Friday`, `2026/11/20 Fri`,
`Fri, 11/20/2026`). PCs write KakaoTalk's as `[name] [오전 10:01] text` with days between hyphens, phones with the whole
time before each message (`2026년 11월 20일 오전 10:01, name : text`, `2026. 11. 20. 10:01, …`,
`November 20, 2026 at 10:01 AM, …`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from saiten.core.formats.records import Record

HALF = r"(?:오전|오후|午前|午後|上午|下午|[AaPp]\.?[Mm]\.?)"
TIME = rf"(?:{HALF}\s?)?\d{{1,2}}:\d\d(?:\s?{HALF})?"
DATE = r"(?:\d{4}(?:[./-]|[년年] ?)\s?\d{1,2}(?:[./-]|[월月] ?)\s?\d{1,2}[일日.]?|[A-Z][a-z]{2,8} \d{1,2}, \d{4})"
WEEKDAY = (
    r"(?:[월화수목금토일]요일|[月火水木金土日](?:曜日?)?|(?:周|週|星期)[一二三四五六日天]"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6})"
)
DAY = re.compile(
    rf"-{{5,}} (?P<kakao>.{{1,60}}?) -{{5,}}|(?P<day>{DATE})(?: ?[(（]{WEEKDAY}[)）]| ?{WEEKDAY})"
    rf"|{WEEKDAY}, (?P<late>\d{{1,2}}/\d{{1,2}}/\d{{4}}|{DATE})"
)
"""A line that begins a day: always with the day of the week, without which it could be what someone wrote."""

MESSAGE_LINE = re.compile(
    rf"\[(?P<user>[^\]]{{1,80}})\] \[{TIME}\] (?P<text>.*)"
    rf"|(?P<day>{DATE})(?:,| at)?\s{TIME}, (?P<user2>[^:]{{1,80}}?) : (?P<text2>.*)"
    rf"|{TIME}\t(?P<user3>[^\t]{{1,80}})\t(?P<text3>.*)",
    re.DOTALL,
)
SPACED = re.compile(rf"{TIME} (?P<user>\S{{1,80}}) (?P<text>.*)", re.DOTALL)
"""A message of LINE on a PC. A name may hold spaces itself, which only who knows it can tell."""

EVENT = re.compile(rf"{TIME}\t\t?[^\t]*|{DATE}(?:,| at)?\s{TIME}(?:[,:] .*)?")
"""What the messenger says itself: that a message was taken back, or who came."""

OPENING = re.compile(
    r"\ufeff?(?:\[LINE\]|Chat history (?:with|in) |.{0,200}(?:카카오톡 대화|KakaoTalk Chats|Talk Chats|カカオトーク))"
)
"""How texts begin that LINE and KakaoTalk export; those without a heading begin with a day."""

NOTED = re.compile(
    r"[\[(<](?:스티커|사진|동영상|음성 ?메시지|파일|위치 ?정보|앨범|노트|연락처|이모티콘|스탬프|선물|투표"
    r"|スタンプ|写真|動画|ボイスメッセージ|音声メッセージ|ファイル|アルバム|ノート|位置情報|連絡先|プレゼント|絵文字|投票"
    r"|Stickers?|Photos?|Videos?|Voice messages?|Audio|Files?|Albums?|Notes?|Location|Contact|Emoticons?|Gift)[\])>]"
    r"|스티커|사진|동영상|음성 ?메시지|이모티콘|スタンプ|写真|動画|ボイスメッセージ|音声メッセージ"
    r"|Stickers?|Photos?|Videos?|Voice messages?|Audio|Emoticons?"
    r"|(?:사진|写真|Photos?) ?\d+ ?(?:장|枚|photos?)?|\d+ photos?|(?:파일|ファイル|File): .{1,300}"
    r"|(?:スタンプ|写真|動画|音声|ファイル|位置情報)(?:を送信しました|が送信されました)。?"
    r"|(?:사진|동영상|이모티콘|스티커|파일)[을를] 보냈습니다\.?|(?:.{1,80} )?sent an? (?:photo|video|sticker|file)\.?"
    r"|☎ .{0,60}|(?:보이스톡|페이스톡|그룹콜|라이브톡).{0,20}"
    r"|삭제된 메시지입니다\.|메시지가 삭제되었습니다\.|This message was deleted\.|Message unsent\."
    r"|(?:このメッセージは)?削除されたメッセージです。?|メッセージの送信を取り消しました",
    re.IGNORECASE,
)
"""What stands in the place of a sticker, a photo, a call or a message that was taken back, in LINE and KakaoTalk."""

MOST_NOTED = 400
"""Characters of a message that are compared with these."""


def is_chat_text(line: str) -> bool:
    """Whether a text that begins with this line is one of LINE or KakaoTalk."""
    start = line[:300]
    return OPENING.match(start) is not None or DAY.fullmatch(start.strip().lstrip("\ufeff")) is not None


def is_noted(text: str) -> bool:
    """Whether a message is no text: a sticker, a photo, or the like."""
    return len(text) <= MOST_NOTED and NOTED.fullmatch(text) is not None


@dataclass
class ChatText:
    """A text being read; what a line means depends on those before it."""

    name: str
    day: str = ""
    shape: str = ""
    """How the first line of a day looks: what a message holds in another form is a part of it."""
    spaced: bool | None = None
    """Whether messages are as LINE on a PC writes them, which the first one tells."""
    tabbed: bool = False
    held: Record | None = None
    """The message that further lines may continue."""
    lines: list[str] = field(default_factory=list)
    """Its lines."""
    marks: int = 0
    """Quotation marks in them."""
    closed: list[Record] = field(default_factory=list)

    def read(self, lines: Iterable[str]) -> Iterator[Record]:
        """A record for each message, as KakaoTalk's CSV has them."""
        for number, line in enumerate(lines, start=1):
            self.take(line.rstrip("\r\n"), f"{self.name}:{number}")
            yield from self.closed
            self.closed.clear()
        self.close()
        yield from self.closed

    def take(self, text: str, where: str) -> None:
        """Reads a line."""
        said = MESSAGE_LINE.fullmatch(text) or (SPACED.fullmatch(text) if self.spaced is not False else None)
        if said:
            self.close()
            self.begin(said, where)
        elif self.held is not None and self.is_quoted():
            self.add(text)
        elif dated := self.find_day(text):
            self.close()
            self.day = dated
        elif EVENT.fullmatch(text):
            self.close()
        elif self.held is not None:
            self.add(text)

    def add(self, text: str) -> None:
        """Adds a line to the message that is held."""
        self.lines.append(text)
        self.marks += text.count('"')

    def is_quoted(self) -> bool:
        """Whether a message of LINE is still open: it puts those of several lines into quotation marks, and doubles
        those within. A day stands below a blank line, so that a single mark does not hold what follows."""
        return self.tabbed and self.lines[0][:1] == '"' and self.lines[-1] != "" and self.marks % 2 == 1

    def begin(self, said: re.Match[str], where: str) -> None:
        """Holds the message that begins with this line."""
        parts = said.groupdict()
        self.spaced, self.tabbed = said.re is SPACED, bool(parts.get("user3"))
        self.day = write_day(parts["day"]) if parts.get("day") else self.day
        user = next(parts[name] for name in ("user", "user2", "user3") if parts.get(name))
        text = next((parts[name] for name in ("text", "text2", "text3") if parts.get(name) is not None), "")
        self.held = Record(where, {"Date": self.day, "User": user, "Message": ""})
        self.lines, self.marks = [], 0
        self.add(text)

    def find_day(self, text: str) -> str:
        """The day that this line begins; empty where it is none, or looks otherwise than the first one."""
        dated = DAY.fullmatch(text.strip().lstrip("\ufeff")) if len(text) < 100 else None
        if dated is None:
            return ""
        shape = re.sub(WEEKDAY, "W", re.sub(r"[A-Z][a-z]+(?= \d)|\d+", "0", dated[0]))
        self.shape = self.shape or shape
        return write_day(dated["kakao"] or dated["day"] or dated["late"]) if shape == self.shape else ""

    def close(self) -> None:
        """Ends the message that is held."""
        if self.held is not None:
            self.held.value["Message"] = unquote("\n".join(self.lines).strip())
            self.closed.append(self.held)
        self.held = None


def read_chat_text(lines: Iterable[str], name: str) -> Iterator[Record]:
    """A record for each message, as KakaoTalk's CSV has them; a message may span several lines."""
    return ChatText(name).read(lines)


def write_day(text: str) -> str:
    """A day as in ISO 8601 where its year stands first; else as it is written."""
    found = re.match(r"(\d{4})\D{1,3}(\d{1,2})\D{1,3}(\d{1,2})", text)
    return f"{found[1]}-{int(found[2]):02}-{int(found[3]):02}" if found else text


def unquote(text: str) -> str:
    """A message without the quotation marks that LINE puts around several lines."""
    return text[1:-1].replace('""', '"') if len(text) > 1 and text[0] == text[-1] == '"' else text
