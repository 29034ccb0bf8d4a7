"""Writes the OpenAPI document to standard output, as `GET /openapi.json` answers it: for linters and generators."""

from __future__ import annotations

import json
import sys
from typing import Any

from saiten_server.application import create_application
from saiten_server.platform.settings import Settings


def make_document() -> dict[str, Any]:
    """The document of a service with the settings of this environment."""
    return create_application(Settings()).openapi()


def main() -> None:
    json.dump(make_document(), sys.stdout, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main()
