"""The plan, `datassay index --plan`: bytes, passes and seconds before anything runs."""

from __future__ import annotations

import numpy as np
from rich.console import RenderableType
from rich.table import Table

from datassay.commands.terminal import plain_text
from datassay.report.wording import count
from datassay.score.index.plan import IndexPlan

MOST_ROWS, QUERIES = 30, 1000


def lines(plan: IndexPlan) -> list[RenderableType]:
    """The plan as a table, the largest blocks of many, and sentences, for the terminal."""
    table = Table(title="Blocks of weights", title_justify="left")
    table.add_column("block")
    for name in ("weights", "curvature", "on disk"):
        table.add_column(name, justify="right")
    largest = np.argsort(-plan.size, kind="stable")[:MOST_ROWS]
    for i in np.sort(largest):
        table.add_row(
            plain_text(str(plan.block[i])),
            f"{plan.size[i]:,}",
            str(plan.kind[i]),
            f"{plan.bytes[i] / 1e6:,.1f} MB",
        )
    more = len(plan.block) - len(largest)
    fits = "fits" if plan.fits else "does NOT fit"
    width = f"{'up to ' * plan.is_most}{count(plan.width, 'number')} in {plan.keep}"
    return [
        table,
        *[f"{count(more, 'smaller block')} beside these."] * (more > 0),
        f"{count(plan.n_samples, 'sample')} of {width}: {plan.row_bytes / 1e6:,.1f} MB of rows, "
        f"{plan.curvature_bytes / 1e6:,.1f} MB of curvature; {plan.scratch_bytes / 1e6:,.1f} MB "
        "more on disk while it is fitted.",
        f"{plan.passes:,} passes of a sample. About {plan.seconds:.3g} s to make, then "
        f"{plan.query_seconds(QUERIES):.2g} s for {QUERIES:,} queries; "
        f"{plan.peak_bytes / 1e9:.2f} GB beside the program, which {fits} in the "
        f"{plan.free_bytes / 1e9:.1f} GB free. Nothing was written.",
    ]
