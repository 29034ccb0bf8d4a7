"""The judge `relay`: questions go out as files, and answers come back as files, from people, another model or a batch
system.

Each question is `NAME.prompt.json`, a line of a file for OpenAI's Batch API. Its answer is `NAME.answer.txt`, the whole
message of the one who judges, read as strictly as any other judge's. The name is a digest of the question's file, so
that an answer cannot stand for another question, and a question that was changed is seen.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from saiten_server.providers.openai.judge import OpenAIJudge
from saiten_server.providers.openai.reply import Reply
from saiten_server.providers.ports import Judgement, JudgingTask, KeptReply

PROMPT = ".prompt.json"
ANSWER = ".answer.txt"
READ_FILE = "answers-read.json"
"""Holds the digest of each answer that a report was made of."""

LONGEST_ANSWER_BYTES = 1_000_000
NAME_LETTERS = 32
ANSWER_FILE = re.compile(r"([0-9a-f]{32})\.(.+)")


@dataclass(frozen=True)
class RelayState:
    """What is wrong in a folder. `missing` holds the questions without an answer; `faults` what must be mended before
    any answer counts: file names with what is wrong with each."""

    questions: int
    missing: tuple[str, ...]
    faults: tuple[tuple[str, str], ...]


class RelayFolder:
    """A folder of questions and answers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names: dict[str, str] = {}

    def ask(self, key: str, body: Mapping[str, object]) -> None:
        """Writes the question with that key, unless it is there."""
        content = write_question(key, body)
        self._names[key] = name = digest_bytes(content)[:NAME_LETTERS]
        path = self.path / f"{name}{PROMPT}"
        if not path.exists():
            self.path.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            part.write_bytes(content)
            part.rename(path)

    def answer(self, key: str) -> str | None:
        """The answer to a question that was asked; None where there is none."""
        return read_answer(self.path / f"{self._names.get(key)}{ANSWER}")

    def inspect(self) -> RelayState:
        """Looks at every file in the folder."""
        files: dict[str, list[str]] = {}
        faults = []
        for path in sorted(self.path.iterdir()) if self.path.is_dir() else ():
            named = ANSWER_FILE.fullmatch(path.name)
            if named is not None and named[2] != "prompt.part":
                files.setdefault(named[1], []).append(path.name)
            elif path.name != READ_FILE and named is None:
                faults.append((path.name, "foreign"))
        read = self.read_digests()
        for name, found in files.items():
            faults += self.find_faults(name, found, read.get(name))
        missing = [name for name, found in files.items() if found == [name + PROMPT]]
        return RelayState(len(files), tuple(missing), tuple(faults))

    def find_faults(self, name: str, found: Sequence[str], read: str | None) -> list[tuple[str, str]]:
        """What is wrong with the files of one name; `read` is the digest of the answer that a report was made of."""
        question = name + PROMPT
        if question not in found:
            return [(one, "foreign") for one in found]
        answers = [one for one in found if one != question]
        changed = [(question, "edited")] if digest_file(self.path / question)[:NAME_LETTERS] != name else []
        if len(answers) > 1:
            return changed + [(one, "doubled") for one in answers]
        if answers and answers != [name + ANSWER]:
            return [*changed, (answers[0], "foreign")]
        if answers and read is not None and read != digest_file(self.path / answers[0]):
            return [*changed, (answers[0], "edited")]
        if answers and read_answer(self.path / answers[0]) is None:
            return [*changed, (answers[0], "unreadable")]
        return changed

    def read_digests(self) -> dict[str, str]:
        """The digest of each answer when a report was made of it, by the question's name."""
        try:
            found = json.loads((self.path / READ_FILE).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}

    def keep_digests(self) -> None:
        """Notes the answers that are there, so that a later change of one is seen."""
        answers = sorted(self.path.glob(f"*{ANSWER}"))
        found = {path.name.removesuffix(ANSWER): digest_file(path) for path in answers}
        (self.path / READ_FILE).write_text(json.dumps(found, indent=0), encoding="utf-8")

    async def find(self, key: str) -> KeptReply | None:
        """Implements `KeptReplies`."""
        text = self.answer(key)
        if text is None:
            return None
        reply = Reply(key=key, content=text, finish_reason="stop", structured=True, parameters={}, dropped=())
        return KeptReply(reply.model_dump_json().encode(), bought=True)


def write_question(key: str, body: Mapping[str, object]) -> bytes:
    """The question as it is written to its file."""
    line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return (json.dumps(line, ensure_ascii=False, indent=1) + "\n").encode()


def digest_bytes(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def read_answer(path: Path) -> str | None:
    """The answer; None where there is none, or it is no UTF-8, or too large."""
    try:
        return None if path.stat().st_size > LONGEST_ANSWER_BYTES else path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def digest_file(path: Path) -> str:
    """SHA-256 of the file, in hexadecimal."""
    return digest_bytes(path.read_bytes())


class RelayJudge(OpenAIJudge):
    """Implements `Judge` over a folder: writes each question, and rates by its answer. Raises ProviderBatchUnanswered
    where there is none. An answer that is no verdict is final: no one is asked again."""

    kind = "relay"

    def relay(self, folder: RelayFolder) -> RelayJudge:
        """This judge, over that folder."""
        self._folder = folder
        self._replies, self._unanswered = folder, "fail"
        return self

    async def judge(self, task: JudgingTask) -> Judgement:
        for call in self.defer(task):
            self._folder.ask(call.key, call.body)
        return await super().judge(task)
