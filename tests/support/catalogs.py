"""What the dashboard's templates and modules say, as the extractor of translations finds it."""

from functools import cache
from io import BytesIO
from pathlib import Path

from babel.messages.extract import extract

import saiten_server

FOLDER = Path(saiten_server.__file__).parent
KEYWORDS = {"_": None, "gettext": None, "ngettext": (1, 2), "mark": None}
OPTIONS = {"trim_blocks": "true", "lstrip_blocks": "true", "silent": "false"}

Message = str | tuple[str, ...]


@cache
def list_messages() -> dict[Message, str]:
    """Every message, with the file that it stands in; not to be changed."""
    found: dict[Message, str] = {}
    for file in sorted(FOLDER.rglob("*")):
        method = {".py": "python", ".html": "jinja2"}.get(file.suffix)
        if method is None or file.is_relative_to(FOLDER / "cli"):  # commands have catalogues of their own
            continue
        source = BytesIO(file.read_bytes())
        for _, message, _, _ in extract(method, source, KEYWORDS, (), OPTIONS):
            key = message if isinstance(message, str) else tuple(part for part in message if part is not None)
            if key:
                found.setdefault(key, file.name)
    return found
