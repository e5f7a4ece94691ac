"""The plan, `datassay explain --plan`: blocks, bytes and seconds before anything runs."""

from __future__ import annotations

import numpy as np
from rich.console import RenderableType
from rich.table import Table

from datassay.commands.terminal import plain_text
from datassay.report.wording import count
from datassay.score.influence.plan import InfluencePlan

MOST_ROWS = 30


def lines(plan: InfluencePlan) -> list[RenderableType]:
    """The plan as a table, the largest blocks of many, and two sentences, for the terminal."""
    table = Table(title="Blocks of weights", title_justify="left")
    table.add_column("block")
    for name in ("weights", "curvature", "memory", "operations"):
        table.add_column(name, justify="right")
    largest = np.argsort(-plan.size, kind="stable")[:MOST_ROWS]
    for i in np.sort(largest):
        table.add_row(
            plain_text(str(plan.block[i])),
            f"{plan.size[i]:,}",
            str(plan.kind[i]),
            f"{plan.bytes[i] / 1e6:,.1f} MB",
            f"{plan.flops[i]:.1e}",
        )
    more = len(plan.block) - len(largest)
    fits = "fits" if plan.fits else "does NOT fit"
    return [
        table,
        *[f"{count(more, 'smaller block')} beside these."] * (more > 0),
        f"{count(plan.n_queries, 'query', 'queries')} by {plan.n_samples:,} training samples, "
        f"{count(plan.n_models, 'network')}: {plan.passes:,} passes of a sample.",
        f"About {plan.seconds:.0f} s; {plan.peak_bytes / 1e9:.2f} GB beside the program, which "
        f"{fits} in the {plan.free_bytes / 1e9:.1f} GB free. Nothing was run.",
    ]
