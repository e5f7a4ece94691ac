"""The page and files of a comparison of runs; its text stands in `report/text/`."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from datassay.commands.frame import compose_page
from datassay.commands.report.job import ConsensusFindings
from datassay.report.advice import N_CHECK_FIRST
from datassay.report.page import Page, Row, Table
from datassay.report.plots import chart, label_cells, level, marks
from datassay.report.result_plots import figure_of
from datassay.report.style import BLUE, SKY, VERMILION, plotly_text
from datassay.report.tables import column, gain_cells, standard_json
from datassay.report.wording import count, share
from datassay.score.compare.consensus import mean_pair
from datassay.score.compare.stability import Stability

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

N_SUSPECTS, N_CHANGED = 20, 10
MOST_NUMBERS = 12  # runs whose correlations are printed into the cells
AGREEMENT_COLOURS = ((0.0, VERMILION), (0.5, "#ffffff"), (1.0, BLUE))
FILES = {"consensus.parquet": "every shared sample", "summary.json": "the figures above"}


def page(findings: ConsensusFindings) -> Page:
    """Return the page of `datassay report`."""
    f = findings
    ours = findings.consensus
    suspects = first_to_check(findings)
    maps = {"information": ours.information_agreement, "issues": ours.issue_agreement}
    changed = np.argsort(-ours.rank_range, kind="stable")[:N_CHANGED]
    changed = changed[ours.rank_range[changed] > 0]
    shares = np.array([f"{100 * a:.0f} %" for a in ours.rank_range])
    suggested = {"suggested": f.suggested, "votes": f.votes}
    blocks: dict[str, Any] = {
        "runs": _tabulate_runs(f),
        "votes": lambda: _tabulate_votes(f),
        "gain": lambda: figure_of(f.runs[-1].gain),
        "levels": lambda: _tabulate_levels(f),
        "apart": lambda: scatter_figure(f) if len(f.runs) == 2 else None,
        "suspects": lambda: _tabulate_samples("Suspects", f, suspects[:N_SUSPECTS], suggested),
        "changed": _tabulate_samples("Changed most", f, changed, {"apart": shares}),
        **{name: stability and agreement_figure(stability) for name, stability in maps.items()},
    }
    numbers = {
        "f": f,
        "ours": ours,
        "n_listed": min(N_SUSPECTS, len(suspects)),
        **_count_labels(f),
        **_measure_agreement(f),
    }
    ids = {"label errors": tuple(str(i) for i in ours.ids[suspects[:N_CHECK_FIRST]])}
    return compose_page("report", f, blocks, numbers, FILES, ids=ids)


def _count_labels(findings: ConsensusFindings) -> dict[str, Any]:
    """Return name → number: labels suspected by all and some runs, truly wrong, relabelled."""
    is_wrong = findings.is_wrong
    changed = findings.relabelled
    by_all = findings.votes == len(findings.runs)
    by_some = findings.votes > 0
    wrong_of_all = None
    wrong_of_some = None
    if is_wrong is not None and by_all.any():
        wrong_of_all = is_wrong[by_all].mean()
        wrong_of_some = is_wrong[by_some].mean()
    is_issue_first, is_issue_last = findings.consensus.is_issue[[0, -1]]
    n_same_suspects = findings.consensus.is_issue[:, ~changed].sum(1)
    return {
        "is_cleared": bool(changed.any()) and not n_same_suspects[-1],
        "most_suspects": findings.runs[int(n_same_suspects.argmax())].folder,
        "gained": findings.runs[-1].gained,
        "n_all": int(by_all.sum()),
        "n_some": int(by_some.sum()),
        "n_same": int((~changed).sum()),
        "n_changed": int(changed.sum()),
        "wrong_of_all": wrong_of_all,
        "wrong_of_some": wrong_of_some,
        "before": int(is_issue_first[changed].sum()),
        "after": int(is_issue_last[changed].sum()),
        "stayed_before": int(is_issue_first[~changed].sum()),
        "stayed_after": int(is_issue_last[~changed].sum()),
    }


def _measure_agreement(findings: ConsensusFindings) -> dict[str, Any]:
    """Return name → number: mean rank correlation of information, and the lowest pair's."""
    agreement = findings.consensus.information_agreement
    names = findings.consensus.names
    if agreement is None:
        return {"mean": None}
    correlations = agreement.spearman
    upper = np.where(np.triu(np.ones_like(correlations, bool), 1), correlations, np.inf)
    i, j = (int(k) for k in np.unravel_index(upper.argmin(), upper.shape))
    has_seeds = all("Seed" in run.facts for run in findings.runs)
    # Runs that differ in nothing but their seed differ by chance.
    by_chance = has_seeds and set(findings.unlike) <= {"Seed"} and not findings.relabelled.any()
    return {
        "mean": mean_pair(correlations),
        "lowest": float(correlations[i, j]),
        "lowest_names": (names[i], names[j]),
        "by_chance": by_chance,
    }


def first_to_check(findings: ConsensusFindings) -> np.ndarray:
    """Return positions of suspects, most votes first, ties by mean rank of issue score, [s]."""
    score = findings.consensus.issue_score  # [r, c]
    votes = findings.votes
    ranks = score.argsort(1, kind="stable").argsort(1, kind="stable").mean(0)
    order = np.lexsort((-ranks, -votes))
    return order[votes[order] > 0]


def _tabulate_runs(findings: ConsensusFindings) -> Table:
    """Return a table with a row per run: samples, suspects, and the facts that differ."""
    unlike = findings.unlike
    rows = tuple(
        Row(r.name, (f"{r.n_samples:,}", f"{r.n_suspects:,}",
                     *(r.facts.get(name, "–") for name in unlike)))
        for r in findings.runs
    )  # fmt: skip
    return Table("Runs", ("run", "samples", "suspects", *(name.lower() for name in unlike)), rows)


def _tabulate_levels(findings: ConsensusFindings) -> Table:
    """Return a table of the score before and after what changed, and of the suspected labels."""
    gain = findings.runs[-1].gain
    assert gain is not None
    row = gain.rows[0]
    n_before = findings.runs[0].n_suspects
    n_now = findings.runs[-1].n_suspects
    change = f"{n_now - n_before:+,}".replace("-", "−")
    suspects = (f"{n_before:,}", f"{n_now:,}", change, "")
    rows = (
        Row(gain.metric, (f"{row.n:,}", *gain_cells(row, gain.metric))),
        Row("suspected labels", ("", *suspects)),
    )
    columns = ("", "held-out samples", "before", "now", "change", "95 % interval")
    return Table("Before and after", columns, rows)


def _tabulate_votes(findings: ConsensusFindings) -> Table:
    """Return a table of how many labels 0 to r runs suspect, and how many of these are wrong."""
    is_wrong = findings.is_wrong
    rows = []
    for k, has_k_votes in reversed(list(enumerate(findings.voted))):
        cells = (f"{int(has_k_votes.sum()):,}",)
        if is_wrong is not None:
            percentage = ""
            if has_k_votes.any():
                percentage = f" ({share(is_wrong[has_k_votes].mean())})"
            cells += (f"{int(is_wrong[has_k_votes].sum()):,}{percentage}",)
        rows.append(Row(count(k, "run") if k else "no run", cells))
    columns = ("suspected by", "samples", *([] if is_wrong is None else ["really wrong"]))
    return Table("Votes", columns, tuple(rows), in_terminal=True)


def _tabulate_samples(
    name: str, findings: ConsensusFindings, positions: np.ndarray, figures: Mapping[str, np.ndarray]
) -> Table:
    """Return a table of samples: label, `figures` (heading → values [n]), rank in each run."""
    consensus = findings.consensus
    ranks = (f"rank in {run}" for run in consensus.names)
    rows = []
    for c in positions:
        cells = (str(v[c]) for v in (findings.label, *figures.values()))
        shares = (f"{100 * share:.0f} %" for share in consensus.rank[:, c])
        rows.append(Row(str(consensus.ids[c]), (*cells, *shares)))
    return Table(name, ("id", "label", *figures, *ranks), tuple(rows))


def scatter_figure(findings: ConsensusFindings) -> "Figure":
    """Plot the labels' issue scores in two runs against each other, coloured by votes."""
    x_scores, y_scores = findings.consensus.issue_score
    titles = (f"label issue score in {name}" for name in findings.consensus.names)
    figure = chart(*titles, showlegend=True)
    hover = "%{customdata}"
    words = (("suspected by none", "#b5bdc6"), ("by one", SKY), ("by both", VERMILION))
    for votes, (name, colour) in enumerate(words):
        rows = findings.voted[votes]
        ids = [plotly_text(str(i), 40) for i in findings.consensus.ids[rows]]
        if rows.any():
            marks(figure, x_scores[rows], y_scores[rows], name, colour, hover, customdata=ids)
    level(figure, x=0)
    level(figure, y=0)
    return figure


def agreement_figure(agreement: Stability) -> "Figure":
    """Plot the runs' rank correlations, [r, r], as a map: blue agrees, orange contradicts."""
    names = agreement.names
    positions = list(range(len(agreement.names)))
    figure = chart(height=160 + 36 * len(names), showlegend=False)
    labels = [plotly_text(name, 22) for name in names]
    figure.add_heatmap(
        x=positions, y=positions, z=agreement.spearman, zmin=-1, zmax=1, xgap=2, ygap=2,
        colorscale=AGREEMENT_COLOURS,
        texttemplate="%{z:.2f}" if len(names) <= MOST_NUMBERS else None,
        customdata=[[f"{a}, {b}" for b in labels] for a in labels],
        hovertemplate="%{customdata}: %{z:.3f}<extra></extra>",
        colorbar={"thickness": 10, "outlinewidth": 0, "tickvals": [-1, 0, 1]},
    )  # fmt: skip
    label_cells(figure, labels)
    return figure


def files(findings: ConsensusFindings, page: Page) -> dict[str, pa.Table | str]:
    """Return the files of the page; the table has the shared samples in the first run's order."""
    consensus = findings.consensus
    table = consensus.to_table()
    table = table.add_column(1, "label", column(findings.label))
    table = table.add_column(2, "suggested_label", column(findings.suggested))
    table = table.add_column(3, "relabelled", pa.array(findings.relabelled))
    if findings.is_wrong is not None:
        table = table.append_column("is_wrong", pa.array(findings.is_wrong))
    names = ("information_agreement", "issue_agreement")
    maps = {name: getattr(consensus, name) for name in names}
    summary = {
        **page.head,
        "runs": [asdict(run) for run in findings.runs],
        "shared": len(consensus.ids),
        "relabelled": int(findings.relabelled.sum()),
        "suspected_by": [int(inside.sum()) for inside in findings.voted],
        **{
            name: stability and {"spearman": stability.spearman, "pearson": stability.pearson}
            for name, stability in maps.items()
        },
        "reliability": consensus.reliability,
    }
    return {"consensus.parquet": table, "summary.json": standard_json(summary)}
