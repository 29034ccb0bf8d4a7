"""Keys of several projects and scopes, as headers."""

from __future__ import annotations

from pathlib import Path

from app.adapters.sql.engine import open_engine
from app.adapters.sql.keys import APIKeyStore
from app.domain.api_key import Scope

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
