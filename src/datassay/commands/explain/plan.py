"""The plan, `datassay explain --plan`: blocks, bytes and seconds before anything runs."""

from __future__ import annotations

from rich.console import RenderableType

from datassay.commands.terminal import block_table
from datassay.commands.trained import INITIAL
from datassay.report.wording import count
from datassay.score.influence.plan import InfluencePlan


def lines(plan: InfluencePlan, *, is_trained: bool = True) -> list[RenderableType]:
    """The plan as a table, the largest blocks of many, and sentences, for the terminal."""
    table = block_table(
        plan.block,
        plan.size,
        {
            "curvature": plan.kind.tolist(),
            "memory": [f"{size / 1e6:,.1f} MB" for size in plan.bytes],
            "operations": [f"{flops:.1e}" for flops in plan.flops],
        },
    )
    fits = "fits" if plan.fits else "does NOT fit"
    return [
        *table,
        f"{count(plan.n_queries, 'query', 'queries')} by {plan.n_samples:,} training samples, "
        f"{count(plan.n_models, 'network')}: {plan.passes:,} passes of a sample.",
        f"About {plan.seconds:.0f} s; {plan.peak_bytes / 1e9:.2f} GB beside the program, which "
        f"{fits} in the {plan.free_bytes / 1e9:.1f} GB free. Nothing was run.",
        *([] if is_trained else [INITIAL.format("")]),
    ]
