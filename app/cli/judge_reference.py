"""The file of a judge's own ratings of the anchors: what it is held against."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from app.cli.backend import Backend
from app.cli.items import InvalidItems
from app.domain.judge_check import AnchorRatings, JudgeCheck, JudgeCheckRequest


@dataclass(frozen=True)
class Reference:
    """`path` is the file, None where the place alone keeps the ratings; `kept` says where the place keeps them.
    Methods raise InvalidItems, SaitenError."""

    path: str | None
    kept: str

    async def check(self, backend: Backend, request: JudgeCheckRequest) -> JudgeCheck:
        """Whether the judge moved against the file's ratings; where there is no file, against those that the place
        keeps, and the file is written with those of now, unless they moved: a new measure would hide that."""
        stored = self.read()
        check = await backend.check_judge(request.model_copy(update={"reference": stored}))
        if check.verdict == "recorded":
            self.write(check.ratings)
        elif self.path is not None and stored is None:
            moved = check.verdict == "moved"
            if not moved:
                self.write(check.ratings)
            did = "was not written, for the judge moved" if moved else "was written with the judge's ratings of now"
            click.echo(f"{self.path} {did}; it was held against the ratings kept {self.kept}", err=True)
        return check

    async def renew(self, backend: Backend, request: JudgeCheckRequest) -> JudgeCheck:
        """The judge as it rates now becomes the measure, together with a new baseline. A file whose ratings it still
        gives stays as it is, so that slow drift adds up."""
        if self.path is None or self.read() is not None:
            check = await self.check(backend, request)
            if check.verdict != "moved":
                return check
            click.echo(f"{check.detail}; its ratings are taken anew", err=True)
        check = await backend.check_judge(request.model_copy(update={"record": True}))
        self.write(check.ratings)
        return check

    def read(self) -> AnchorRatings | None:
        """The stored ratings; None where there is no such file."""
        if self.path is None or not Path(self.path).exists():
            return None
        try:
            return AnchorRatings.model_validate_json(Path(self.path).read_bytes())
        except OSError as error:
            raise InvalidItems(f"{self.path}: {error.strerror}") from None
        except ValueError:
            raise InvalidItems(
                f"{self.path}: these are no stored ratings of a judge; remove it to store them anew"
            ) from None

    def write(self, ratings: AnchorRatings) -> None:
        """Stores the ratings, where there is a file to be."""
        if self.path is None:
            return
        try:
            Path(self.path).write_text(ratings.model_dump_json(indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InvalidItems(f"{self.path}: {error.strerror}") from None
