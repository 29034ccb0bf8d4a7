"""What a database itself says of its schema, so that two schemas can be compared in everything."""

import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, text

Catalog = dict[str, list[Any]]
"""Rows by what they tell of; the same for two databases whose schemas differ in nothing."""

POSTGRES = {
    "relations": """
        SELECT relname, relkind, relpersistence, relreplident, reloptions, relrowsecurity, relhastriggers, relhasindex,
               relchecks, reltablespace, relispartition, a.amname, obj_description(c.oid)
        FROM pg_class c LEFT JOIN pg_am a ON a.oid = relam WHERE relnamespace = 'public'::regnamespace
    """,
    "columns": """
        SELECT c.relname, row_number() OVER (PARTITION BY c.oid ORDER BY attnum), attname, format_type(atttypid, atttypmod), attnotnull, attstorage, attcompression,
               attidentity, attgenerated, attstattarget, attcollation::regcollation::text,
               pg_get_expr(adbin, adrelid), col_description(c.oid, attnum),
               (SELECT array_agg(o) FROM unnest(attoptions) o WHERE o LIKE 'n_distinct%')
        FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
             LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = attnum
        WHERE relnamespace = 'public'::regnamespace AND attnum > 0 AND NOT attisdropped
    """,
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype, condeferrable, condeferred, convalidated, confupdtype,
               confdeltype, confmatchtype, conislocal, connoinherit, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    """,
    "indexes": """
        SELECT indexrelid::regclass::text, indisunique, indisprimary, indisvalid, indimmediate, indnullsnotdistinct,
               indisclustered, pg_get_indexdef(indexrelid), pg_get_expr(indpred, indrelid)
        FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relnamespace = 'public'::regnamespace
    """,
    "sequences": """
        SELECT seqrelid::regclass::text, seqtypid::regtype::text, seqstart, seqincrement, seqmax, seqmin, seqcache,
               seqcycle, refobjid::regclass::text, refobjsubid
        FROM pg_sequence LEFT JOIN pg_depend ON objid = seqrelid AND deptype = 'a'
    """,
    "triggers": """
        SELECT tgrelid::regclass::text, tgfoid::regproc::text, tgtype, tgenabled, tgdeferrable
        FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = 'public'::regnamespace
    """,
    "types": "SELECT typname, typtype FROM pg_type WHERE typnamespace = 'public'::regnamespace",
    "functions": "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
    "revision": "SELECT version_num FROM alembic_version",
}
"""By name and never by number (oid): those differ from database to database. Columns are counted without those that a
migration has dropped, which keep their numbers."""

SQLITE = {
    "columns": "SELECT m.name, x.* FROM sqlite_master m, pragma_table_xinfo(m.name) x WHERE m.type = 'table'",
    "kinds": """SELECT name, type, ncol, wr, strict FROM pragma_table_list WHERE schema = 'main'""",
    # Without the constraint's number: SQLite counts from the last one that was written down.
    "references": """
        SELECT m.name, f."table", f."from", f."to", f.on_update, f.on_delete, f."match"
        FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'
    """,
    "indexes": """
        SELECT m.name, CASE i.origin WHEN 'c' THEN i.name END, i."unique", i.origin, i.partial,
               (SELECT group_concat(seqno || ' ' || cid || ' ' || coalesce(name, '') || ' ' || "desc" || ' ' || coll)
                FROM pragma_index_xinfo(i.name))
        FROM sqlite_master m, pragma_index_list(m.name) i WHERE m.type = 'table'
    """,
    "revision": "SELECT version_num FROM alembic_version",
}


def read_catalog(connection: Connection) -> Catalog:
    """Everything that the connection's database says of its schema."""
    queries = SQLITE if connection.dialect.name == "sqlite" else POSTGRES
    catalog = {name: _rows(connection, query) for name, query in queries.items()}
    if connection.dialect.name == "sqlite":
        words = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")).all()
        catalog["words"] = sorted((name, normalise(sql)) for name, sql in words)
    return catalog


def _rows(connection: Connection, query: str) -> list[Any]:
    return sorted((tuple(row) for row in connection.execute(text(query))), key=repr)


def normalise(statement: str) -> tuple[str, tuple[str, ...], str]:
    """A CREATE statement as (what comes before its list, the list's entries, what comes after).

    Names without quotes and words with one space in between; constraints, whose order means nothing, behind the columns
    and sorted. SQLite keeps the statement as it was written, and adds to it what later ones add.
    """
    plain = re.sub(r"\s+", " ", statement.replace('"', "")).strip()
    before, _, rest = plain.partition("(")
    end = _closing(rest)
    entries = [entry.strip() for entry in _split(rest[:end])]
    columns = [entry for entry in entries if not entry.startswith(("CONSTRAINT ", "PRIMARY ", "UNIQUE ", "FOREIGN "))]
    others = sorted(entry for entry in entries if entry not in columns)
    return before.strip(), (*columns, *others), rest[end + 1 :].strip()


def _closing(words: str) -> int:
    """Where the list ends whose opening parenthesis stood before `words`."""
    depth = 1
    for place, letter in enumerate(words):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return place
    raise ValueError(f"no list ends in {words!r}")


def _split(words: str) -> Iterator[str]:
    """The entries between commas that stand in no parentheses."""
    depth, begun = 0, 0
    for place, letter in enumerate(words):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield words[begun:place]
            begun = place + 1
    yield words[begun:]
