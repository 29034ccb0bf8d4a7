"""The stores of meta-evaluation in SQL, put together."""

from __future__ import annotations

from app.adapters.sql.meta.anchors import Anchors
from app.adapters.sql.meta.exclusions import Exclusions
from app.adapters.sql.meta.ratings import Ratings
from app.adapters.sql.meta.validations import Validations


class SQLMetaStore(Ratings, Exclusions, Validations, Anchors):
    """`RatingStore`, `ValidationStore` and `AnchorStore` on any engine that `app.adapters.sql.engine` opens."""
