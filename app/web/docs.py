"""`/docs`: Swagger UI from an installed package, by relative addresses.

It works where no CDN can be reached, below any prefix and behind any proxy, and a forged Host header moves nothing.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, FastAPI, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs() -> Response:
    """The page; its assets lie below it."""
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title="Saiten API",
        swagger_js_url="docs/assets/swagger-ui-bundle.js",
        swagger_css_url="docs/assets/swagger-ui.css",
        swagger_favicon_url="docs/assets/favicon-32x32.png",
        swagger_ui_parameters={"tryItOutEnabled": True, "persistAuthorization": True, "displayRequestDuration": True},
    )


def mount_assets(application: FastAPI) -> None:
    """Swagger UI's script, style and icon."""
    # The package is not loaded: nothing of it is wanted but its files.
    found = find_spec("fastapi_swagger")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("no module named 'fastapi_swagger'", name="fastapi_swagger")
    folder = Path(found.origin).parent / "resources"
    application.mount("/docs/assets", StaticFiles(directory=folder), name="docs-assets")
