"""Keys of several projects and scopes, as headers."""

from pathlib import Path

from saiten_server.core.access import Scope
from saiten_server.governance.keys import APIKeyStore
from saiten_server.platform.sql.engine import open_engine

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
