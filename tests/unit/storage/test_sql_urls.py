"""Database URLs as operators hold them."""

from __future__ import annotations

import pytest

from app.domain.errors import SettingsInvalid
from app.storage.sql.engine import open_engine


@pytest.mark.parametrize("query", ["sslmode=require", "sslmode=verify-full&sslrootcert=/ca.crt"])
def test_what_only_postgresqls_own_programs_take_is_named(query: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"^DATABASE_URL: sslmode is for .*; write ssl=") as caught:
        open_engine(f"postgresql+asyncpg://u:secret@h/d?{query}")
    assert "secret" not in caught.value.detail


@pytest.mark.parametrize("url", ["postgresql+asyncpg://h:port/d", "nonsense"])
def test_what_is_no_url_is_told_without_its_words(url: str) -> None:
    with pytest.raises(SettingsInvalid, match="not an SQLAlchemy URL"):
        open_engine(url)
