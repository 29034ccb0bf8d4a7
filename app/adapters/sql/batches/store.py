"""`BatchStore` in SQL, put together."""

from __future__ import annotations

from app.adapters.sql.batches.commits import Commits
from app.adapters.sql.batches.deadlines import Deadlines
from app.adapters.sql.batches.ending import Ending
from app.adapters.sql.batches.intake import Intake
from app.adapters.sql.batches.leases import Leases
from app.adapters.sql.batches.results import Results
from app.adapters.sql.batches.steering import Steering
from app.adapters.sql.batches.tallies import Tallies


class SQLBatchStore(Intake, Steering, Results, Leases, Commits, Deadlines, Ending, Tallies):
    """Keeps batches on any engine that `app.adapters.sql.engine` opens.

    `window` is how many chunks are queued or leased at a time when a commit makes room for more, `usd_per_day` what a
    key may cost a day that has no limit of its own, and `clock` the time in UTC.
    """
