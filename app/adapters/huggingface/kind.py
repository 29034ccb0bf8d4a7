"""What is loaded from the Hugging Face hub, and how it is spoken of where it cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Kind:
    """A kind of model: `noun` names it in sentences, `unavailable` is raised with one of them where it cannot be had.
    It takes `packages`, which the extra `bertscore` brings; `purpose` says what that extra is to be installed for."""

    noun: str
    purpose: str
    packages: tuple[str, ...]
    unavailable: type[Exception]

    def find_missing(self) -> list[str]:
        """Those of its packages that are not installed. Imports nothing."""
        return [package for package in self.packages if find_spec(package) is None]

    def require_installed(self) -> None:
        """Raises `unavailable` where the extra is not installed. Imports nothing."""
        if missing := self.find_missing():
            reason = f"install saiten[bertscore] {self.purpose} ({', '.join(missing)} not installed)"
            raise self.unavailable(reason)

    def explain(self, shown: str, error: Exception) -> str:
        """Why the model that is `shown` so could not be loaded, in one sentence without a path."""
        if isinstance(error, ImportError):
            # transformers begins such messages with an empty line.
            said = next((line for line in str(error).splitlines() if line.strip()), "the log says which")
            return f"{self.noun} {shown} needs a package that is not installed ({error.name or said})"
        if isinstance(error, MemoryError):
            return f"{self.noun} {shown} does not fit in memory"
        return f"{self.noun} {shown} could not be loaded ({type(error).__name__}; the log says more)"
