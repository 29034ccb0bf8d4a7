"""Database URLs as operators hold them."""

import pytest
from sqlalchemy import make_url, text

from saiten_server.core.errors import SettingsInvalid
from saiten_server.platform.settings import Settings
from saiten_server.platform.sql.engine import close_engine, open_engine


@pytest.mark.parametrize("query", ["sslmode=require", "sslmode=verify-full&sslrootcert=/ca.crt"])
def test_what_only_postgresqls_own_programs_take_is_named(query: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"^DATABASE_URL: sslmode is for .*; write ssl=") as caught:
        open_engine(f"postgresql+asyncpg://u:secret@h/d?{query}")
    assert "secret" not in caught.value.detail


@pytest.mark.parametrize("url", ["postgresql+asyncpg://h:port/d", "nonsense"])
def test_what_is_no_url_is_told_without_its_words(url: str) -> None:
    with pytest.raises(SettingsInvalid, match="not an SQLAlchemy URL"):
        open_engine(url)


async def test_of_several_hosts_one_that_takes_writes_is_connected_to(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_url(postgres_url)
    if made.host is None:
        pytest.skip("this PostgreSQL listens at a socket alone")
    user, _, place = made.render_as_string(hide_password=False).partition("://")[2].rpartition("@")
    monkeypatch.setenv("DATABASE_URL", f"postgresql://{user}@127.0.0.1:1,{place}")
    engine = open_engine(Settings().sqlalchemy_url)
    try:
        async with engine.connect() as connection:
            assert (await connection.execute(text("SELECT current_database()"))).scalar() == made.database
    finally:
        await close_engine(engine)
