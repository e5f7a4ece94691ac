"""Information summed up by class and by source, and beside what was made wrong on purpose."""

from __future__ import annotations

import numpy as np

from datassay.commands.run.figures.samples import (
    comparison_figure,
    source_groups,
    spoiled_groups,
)
from datassay.commands.run.findings import Findings
from datassay.report.page import Block, Figure, Row, Section, Table, Text
from datassay.report.wording import number, p_value, percent
from datassay.score.compare.aggregate import Aggregate
from datassay.score.information.groups import GroupInformation

MAX_P = 0.01
COLUMNS = (
    "samples", "total, nats", "mean", "95 % interval", "median", "share", "as one, nats",
    "suspects",
)  # fmt: skip
AS_ONE = (
    "As one: what the network loses without the whole {}. Samples that can stand in for each other "
    "carry little information alone and much as one."
)


def sections(findings: Findings) -> tuple[Section, ...]:
    """Totals by class and by source, and the spoiled samples, where there are any."""
    information = findings.information.information
    parts = []
    for by, totals in findings.groups.items():
        blocks: list[Block] = [Text(group_verdict(by, totals))]
        if by == "source" and (sources := source_groups(findings)):
            drawing = comparison_figure(information, sources)
            blocks.append(Figure("sources", drawing, "Information by source"))
        blocks.append(group_table(findings, by))
        # One entry in the navigation leads to all totals.
        anchor, short = (f"groups-{by}", "") if parts else ("groups", "Totals")
        parts.append(Section(anchor, short, f"Totals by {by}", tuple(blocks)))
    if spoiled := spoiled_groups(findings):
        text = (
            "Shares of each group. The further apart they lie, the better information alone tells "
            "them apart."
        )
        described = "Information of clean samples and of those made wrong on purpose"
        drawing = Figure("spoiled", comparison_figure(information, spoiled), described)
        title = "What was made wrong on purpose"
        parts.append(Section("spoiled", "Made wrong", title, (Text(text), drawing)))
    return tuple(parts)


def group_table(findings: Findings, by: str) -> Table:
    """A row a group: classes in their order, sources by name."""
    samples, totals = findings.samples, findings.groups[by]
    labels = samples.source if by == "source" else np.array(samples.class_names)[samples.y]
    assert labels is not None
    order = list(range(len(totals.names)))
    if by == "class":
        order.sort(key=lambda g: samples.class_names.index(str(totals.names[g])))
    whole = findings.whole_groups.get(by)
    rows = tuple(_row(totals, whole, g, labels, findings.issues.is_issue) for g in order)
    note = AS_ONE.format(by) if whole is not None else ""
    return Table(f"Totals by {by}", (by, *COLUMNS), rows, note=note, wraps=False)


def _row(
    totals: Aggregate,
    whole: GroupInformation | None,
    g: int,
    labels: np.ndarray,
    is_issue: np.ndarray,
) -> Row:
    low, high = totals.mean_interval[g]
    cells = (
        f"{totals.count[g]:,}",
        number(totals.total[g]),
        number(totals.mean[g]),
        f"{number(low)} to {number(high)}",
        number(totals.median[g]),
        f"{100 * totals.share[g]:.1f} %",
        "–" if whole is None else number(whole.information[g]),
        f"{is_issue[labels == totals.names[g]].sum():,}",
    )
    return Row(str(totals.names[g]), cells)


def group_verdict(by: str, totals: Aggregate) -> str:
    """Whether the groups differ, which leads, and how sure that is."""
    test = "Mann–Whitney" if len(totals.names) == 2 else "Kruskal–Wallis"
    p = f"{test} test by ranks, {p_value(totals.p_value)}"
    if totals.p_value >= MAX_P:
        return f"The samples of one {by} inform no more than those of another ({p})."
    best = int(totals.superiority.argmax())
    chance = percent(round(float(totals.superiority[best]), 2))
    others = "one of the other" if len(totals.names) == 2 else "one of the others"
    return (
        f"They differ ({p}): a random sample of {by} {totals.names[best]} informs more than a "
        f"random {others} in {chance} of draws; 50 % would be no difference."
    )
