"""Brings the database of DATABASE_URL up to date."""

import asyncio
import os
import signal
import sys

from app.domain.errors import SaitenError
from app.runtime.settings import read_settings
from app.storage.sql.engine import open_engine
from app.storage.sql.schema import migrate

# The first process of a container hears no signal that it has no handler for. What is not committed is rolled back.
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))


async def main() -> None:
    """Returns once the schema is the one that this image knows."""
    engine = open_engine(read_settings().sqlalchemy_url)
    try:
        await migrate(engine)
    finally:
        await engine.dispose()


try:
    asyncio.run(main())
except SaitenError as error:
    sys.exit(f"saiten: {error.detail}")
