"""Information summed up by class and by source, and the test of the difference in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.report.page import Row
from datassay.report.wording import number, percent
from datassay.score.compare.aggregate import Aggregate
from datassay.score.information.groups import GroupInformation

MAX_P = 0.01
GROUP_COLUMNS = (
    "samples", "total, nats", "mean", "95 % interval", "median", "share", "as one, nats",
    "suspects",
)  # fmt: skip
AS_ONE = (
    "As one: what the network loses without the whole {}. Samples that can stand in for each other "
    "carry little information alone and much as one."
)


@dataclass(frozen=True, slots=True)
class GroupTable:
    """All classes or all sources.

    Attributes:
        by: "class" or "source".
        rows: one a group; classes in their order, sources by name.
        verdict: the test of the difference, one or two sentences.
        note: what "as one" says; empty where it was not computed.
    """

    by: str
    rows: tuple[Row, ...]
    verdict: str
    note: str = ""


def group_tables(findings: Findings) -> tuple[GroupTable, ...]:
    """A table a grouping that the samples have.

    Args:
        findings: one run's results.

    Returns:
        By class, then by source; empty where there is nothing to compare.
    """
    samples = findings.samples
    tables = []
    for by, found in findings.groups.items():
        labels = samples.source if by == "source" else np.array(samples.class_names)[samples.y]
        assert labels is not None
        order = list(range(len(found.names)))
        if by == "class":
            order.sort(key=lambda g: samples.class_names.index(str(found.names[g])))
        whole = findings.whole_groups.get(by)
        rows = tuple(_row(found, whole, g, labels, findings.issues.is_issue) for g in order)
        note = AS_ONE.format(by) if whole is not None else ""
        tables.append(GroupTable(by, rows, group_verdict(by, found), note))
    return tuple(tables)


def _row(
    found: Aggregate,
    whole: GroupInformation | None,
    g: int,
    labels: np.ndarray,
    is_issue: np.ndarray,
) -> Row:
    inside = labels == found.names[g]
    low, high = found.mean_interval[g]
    suspects = int(is_issue[inside].sum())
    cells = (
        f"{found.count[g]:,}",
        number(found.total[g]),
        number(found.mean[g]),
        f"{number(low)} to {number(high)}",
        number(found.median[g]),
        f"{100 * found.share[g]:.1f} %",
        "–" if whole is None else number(whole.information[g]),
        f"{suspects:,}",
    )
    return Row(str(found.names[g]), cells)


def group_verdict(by: str, found: Aggregate) -> str:
    """Whether the groups differ, which leads, and how sure that is.

    Args:
        by: "class" or "source".
        found: information by group.

    Returns:
        One or two sentences, plain text.
    """
    test = "Mann–Whitney" if len(found.names) == 2 else "Kruskal–Wallis"
    p = f"{test} test by ranks, p = {number(found.p_value)}"
    if found.p_value >= MAX_P:
        return f"The samples of one {by} inform no more than those of another ({p})."
    best = int(found.superiority.argmax())
    chance = percent(round(float(found.superiority[best]), 2))
    others = "one of the other" if len(found.names) == 2 else "one of the others"
    return (
        f"They differ ({p}): a random sample of {by} {found.names[best]} informs more than a "
        f"random {others} in {chance} of draws; 50 % would be no difference."
    )
