"""Reads what teams have (tables, JSON, the logs of other tools) as items.

items = read_items("annotations.xlsx")
for item in items:
    print(item.where, item.value)
print(*items.report.lines(), sep="\n")
"""

from __future__ import annotations

from saiten.core.formats import (
    SOURCES,
    FoundItem,
    ItemReader,
    Report,
    UnreadableInput,
    parse_map,
    parse_where,
    read_items,
)

__all__ = ["SOURCES", "FoundItem", "ItemReader", "Report", "UnreadableInput", "parse_map", "parse_where", "read_items"]
