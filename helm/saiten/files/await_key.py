"""Waits until the database of DATABASE_URL holds an API key, so that one can be made from this very container."""

import asyncio
import signal
import sys

from app.runtime.settings import read_settings
from app.storage.sql.engine import open_engine
from app.storage.sql.keys import APIKeyStore
from app.storage.sql.schema import migrate


async def main() -> None:
    """Returns once there is a key."""
    engine = open_engine(read_settings().sqlalchemy_url)
    try:
        await migrate(engine)
        keys = APIKeyStore(engine)
        announced = False
        while not await keys.any():
            if not announced:
                print("there is no API key yet: run `saiten keys create` in this container", flush=True)  # noqa: T201
                announced = True
            await asyncio.sleep(2)
    finally:
        await engine.dispose()


# The first process of a container ignores SIGTERM unless it says what to do.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
asyncio.run(main())
