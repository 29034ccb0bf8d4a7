"""Keys over two service processes on one database: a revocation holds on both, and the database holds no key."""

from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from saiten_server.platform.sql.engine import open_engine, read
from saiten_server.platform.sql.tables import metadata
from tests.support.command import saiten, served
from tests.support.waiting import LIMIT_SECONDS

SAID = {"context": [{"speaker": "A", "text": "おはよう"}], "response": "おはよう、よく眠れた？"}


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


async def dump(url: str) -> str:
    """Every row of every table."""
    engine = open_engine(url)
    async with read(engine) as connection:
        rows = [row for table in metadata.sorted_tables for row in (await connection.execute(select(table))).all()]
    await engine.dispose()
    return "\n".join(map(repr, rows))


async def test_a_revoked_key_is_none_on_every_replica(tmp_path: Path, database: str) -> None:
    settings = {"DATABASE_URL": database, "SAITEN_JUDGE": "lexical"}
    made = saiten("keys", "create", "--scope", "admin", folder=tmp_path, stdin=None, **settings)
    key, key_id = made.stdout.strip(), made.stderr.partition(":")[0]
    other = saiten("keys", "create", folder=tmp_path, stdin=None, **settings).stdout.strip()
    bearer = {"Authorization": f"Bearer {key}"}
    with ExitStack() as stack:
        places = [stack.enter_context(served(tmp_path, **settings))[0] for _ in range(2)]
        client = stack.enter_context(httpx.Client(trust_env=False, verify=False, timeout=LIMIT_SECONDS))

        signed = client.post(f"{places[0]}/login", data={"key": key})
        cookie = {"Cookie": signed.headers["set-cookie"].partition(";")[0]}
        client.cookies.clear()

        def statuses(headers: dict[str, str], path: str) -> list[int]:
            return [client.get(place + path, headers=headers).status_code for place in places]

        body = {"rubric": "ja-dialogue", "relevance": None, **SAID}
        keyed = bearer | {"Idempotency-Key": "once"}
        assert client.post(f"{places[0]}/v1/evaluations", json=body, headers=keyed).status_code == 200
        assert client.get(f"{places[1]}/v1/audit", headers=bearer).status_code == 200
        assert statuses(bearer, "/v1/batches") == statuses(cookie, "/") == [200, 200]

        revoked = saiten("keys", "revoke", key_id, folder=tmp_path, stdin=None, **settings)
        assert revoked.returncode == 0
        # The very next request of each: nothing that either process remembers lets the key in.
        assert statuses(bearer, "/v1/batches") == [401, 401]
        assert statuses(cookie, "/") == [303, 303]
        assert statuses({"Authorization": f"Bearer {other}"}, "/v1/batches") == [200, 200]
        kept = await dump(database)
    assert key_id in kept
    for text in (key, other):
        assert text not in kept
        assert text.removeprefix("saiten_") not in kept
    for place in tmp_path.iterdir():
        assert key.encode() not in (place.read_bytes() if place.is_file() else b""), place.name
