"""All the page's figures, as the JSON that plotly draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datassay.commands.run.figures.check import check_figure
from datassay.commands.run.figures.projection import projection_figure
from datassay.commands.run.figures.samples import (
    comparison_figure,
    information_figure,
    issue_figure,
    source_groups,
    spoiled_groups,
)
from datassay.commands.run.figures.subsets import subset_figure
from datassay.commands.run.figures.training import (
    gain_figure,
    modes_figure,
    removal_figure,
    spectrum_figure,
)
from datassay.commands.run.findings import RANDOM, Findings

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def figures(findings: Findings) -> dict[str, tuple[str, str]]:
    """All the figures that these findings can fill.

    Args:
        findings: one run's results.

    Returns:
        Figure name → (plotly JSON, what it shows for who cannot see it).
    """
    drawn: dict[str, tuple[Figure, str]] = {
        "information": (information_figure(findings), "Histogram of information by class"),
        "issues": (issue_figure(findings), "Histogram of label issue scores"),
        "spectrum": (spectrum_figure(findings), "Eigenvalues of the kernel by mode"),
        "modes": (modes_figure(findings), "Predicted residual left against training steps"),
    }
    information = findings.information.information
    if sources := source_groups(findings):
        drawn["sources"] = (comparison_figure(information, sources), "Information by source")
    if spoiled := spoiled_groups(findings):
        text = "Information of clean samples and of those made wrong on purpose"
        drawn["spoiled"] = (comparison_figure(information, spoiled), text)
    quality = findings.projection_quality
    if quality is not None and quality.projection:
        text = "Rank correlation with exact scores against number of features"
        drawn["projection"] = (projection_figure(quality), text)
    if findings.check is not None:
        text = "Change of the predictions by retraining against that of the linearised network"
        drawn["check"] = (check_figure(findings.check), text)
    if findings.average is not None:
        text = "Information beside random subsets against that beside all other samples"
        drawn["subsets"] = (subset_figure(findings), text)
    curve = findings.removal_curve
    if curve is not None:
        rankings = ", ".join(curve.rankings)
        text = f"{curve.metric} against fraction removed, by ranking: {rankings}"
        drawn["removal"] = (removal_figure(findings), text)
        if RANDOM in curve.rankings:
            text = f"gain of {curve.metric} over random removal, by ranking"
            drawn["gain"] = (gain_figure(findings), text)
    return {name: (str(figure.to_json()), text) for name, (figure, text) in drawn.items()}
