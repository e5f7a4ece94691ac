"""The plan, `datassay index --plan`: bytes, passes and seconds before anything runs."""

from __future__ import annotations

from rich.console import RenderableType

from datassay.commands.terminal import block_table
from datassay.commands.trained import INITIAL
from datassay.report.wording import count
from datassay.score.index.plan import IndexPlan

QUERIES = 1000


def lines(plan: IndexPlan, *, is_trained: bool = True) -> list[RenderableType]:
    """The plan as a table, the largest blocks of many, and sentences, for the terminal."""
    table = block_table(
        plan.block,
        plan.size,
        {
            "curvature": plan.kind.tolist(),
            "on disk": [f"{size / 1e6:,.1f} MB" for size in plan.bytes],
        },
    )
    fits = "fits" if plan.fits else "does NOT fit"
    width = f"{'up to ' * plan.is_most}{count(plan.width, 'number')} in {plan.keep}"
    return [
        *table,
        f"{count(plan.n_samples, 'sample')} of {width}: {plan.row_bytes / 1e6:,.1f} MB of rows, "
        f"{plan.curvature_bytes / 1e6:,.1f} MB of curvature; {plan.scratch_bytes / 1e6:,.1f} MB "
        "more on disk while it is fitted.",
        f"{plan.passes:,} passes of a sample. About {plan.seconds:.3g} s to make, then "
        f"{plan.query_seconds(QUERIES):.2g} s for {QUERIES:,} queries; "
        f"{plan.peak_bytes / 1e9:.2f} GB beside the program, which {fits} in the "
        f"{plan.free_bytes / 1e9:.1f} GB free. Nothing was written.",
        *([] if is_trained else [INITIAL.format("" if plan.is_most else "; the width may")]),
    ]
