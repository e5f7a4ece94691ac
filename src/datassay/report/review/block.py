"""The review as a block of a page, which works without a server."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from datassay.report.html import markup, script_json
from datassay.report.page import Partial
from datassay.report.review.labels import Reviewed
from datassay.report.review.listing import listing
from datassay.report.review.showcase import Showcase
from datassay.report.wording import count

ANCHOR = "review"
SCRIPTS = ("review_store.js", "review_cards.js", "review_grid.js", "review.js")
MOST_IN_PAGE = 200  # samples that a page without a server holds
LARGE, SMALL = 240, 72  # pixels of its pictures


def review_block(reviewed: Reviewed, chosen: Int[np.ndarray, " m"]) -> Partial:
    """The review as a block of a page, which works without a server.

    Args:
        reviewed: all samples.
        chosen: positions of those to review, the most suspect first; the page holds the first 200.

    Returns:
        The block; `datassay view` serves the same page and gives it all samples.
    """
    rows, n = chosen[:MOST_IN_PAGE], len(chosen)
    data = listing(reviewed, rows) | {"details": Showcase(reviewed).details(rows, LARGE, SMALL)}
    which = count(n, "sample") if n == len(rows) else f"the {len(rows)} most suspect of {n:,}"
    context = {"data": markup(script_json(data)), "which": which, "n": n}
    return Partial("review.html", context, script=SCRIPTS)
