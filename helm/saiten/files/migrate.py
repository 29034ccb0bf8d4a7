"""Brings the database of DATABASE_URL up to date."""

import asyncio
import sys

from app.adapters.sql.engine import migrate, open_engine
from app.domain.errors import SaitenError
from app.settings import read_settings


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
