"""Keys of several projects and scopes, as headers."""

from __future__ import annotations

from pathlib import Path

from app.domain.governance import Scope
from app.storage.sql.engine import open_engine
from app.storage.sql.keys import APIKeyStore

Header = dict[str, str]


async def make_keys(folder: Path, *wanted: tuple[str, Scope]) -> list[Header]:
    """An `Authorization` header for each (project, scope), of a service whose database lies in `folder`."""
    engine = open_engine(f"sqlite+aiosqlite:///{folder / 'saiten.db'}")
    keyring = APIKeyStore(engine)
    headers = []
    for project, scope in wanted:
        _, text = await keyring.create("k", project, scope)
        headers.append({"Authorization": f"Bearer {text}"})
    await engine.dispose()
    return headers
