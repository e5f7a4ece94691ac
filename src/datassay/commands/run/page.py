"""The page: one HTML file that opens from disk, asks no network, and escapes what users wrote."""

from __future__ import annotations

import numpy as np

from datassay.act.remove.rivals import Contest
from datassay.commands.run.advice import advice
from datassay.commands.run.blocks.gallery import N_ISSUES, cards
from datassay.commands.run.blocks.pairs import pair_cards
from datassay.commands.run.blocks.queries import (
    effect_sentence,
    effect_words,
    query_data,
    query_note,
)
from datassay.commands.run.blocks.totals import GROUP_COLUMNS, group_tables
from datassay.commands.run.figures.all import figures
from datassay.commands.run.figures.subsets import FACTOR, stand_ins
from datassay.commands.run.findings import Findings
from datassay.commands.run.method import method_notes
from datassay.report.old_html import advice_cards, card_kind, markup, render, script_json
from datassay.report.wording import count, number, percent

SCRIPTS = ("figures.js", "gallery.js", "explain.js")


def render_page(findings: Findings) -> str:
    """The report as one self-contained HTML page.

    Every text that came with the data is escaped, in HTML, in attributes and inside the figures.
    A content security policy in the page refuses any network access.

    Args:
        findings: one run's results.

    Returns:
        HTML; about 5 MB of it is plotly's JavaScript.

    Cost: well under a second, plus the drawing of at most 400 cards.
    """
    return render("run.html", SCRIPTS, _context(findings), figures(findings))


def _context(findings: Findings) -> dict[str, object]:
    shown = cards(findings)
    samples, curve = findings.samples, findings.removal_curve
    metric = "accuracy" if samples.is_classification else "R²"
    metric = metric if curve is None else curve.metric
    return {
        "brand": "datassay · which training samples matter",
        "title": samples.name,
        "samples": samples,
        "lead": _lead(findings),
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": advice_cards(advice(findings)),
        "gallery_view": "issues",
        "sections": _sections(findings),
        "cards": shown,
        "card_kind": card_kind(shown),
        "gallery_note": _gallery_note(findings, len(shown)),
        "group_tables": group_tables(findings),
        "group_columns": GROUP_COLUMNS,
        "pairs": pair_cards(findings),
        "subset_note": _subset_note(findings),
        **_explained(findings),
        "issue_note": _issue_note(findings),
        "removal_note": _removal_note(findings),
        "metric_title": metric[:1].upper() + metric[1:],
        "contests": [_contest(contest) for contest in findings.contests],
        "check": findings.check,
        "quality": findings.projection_quality,
        "method": method_notes(findings),
    }


def _explained(findings: Findings) -> dict[str, object]:
    """The section on single predictions; nothing where there was no attribution."""
    if findings.attribution is None:
        return {"queries": None}
    what, raised, lowered = effect_words(findings)
    return {
        "queries": markup(script_json(query_data(findings))),
        "query_note": query_note(findings),
        "effect_of": what,
        "effect_sentence": effect_sentence(findings),
        "raised": raised,
        "lowered": lowered,
    }


def _sections(findings: Findings) -> list[tuple[str, str]]:
    """Anchor and name of each section there is."""
    quality = findings.projection_quality
    there = {
        "groups": bool(findings.groups),
        "subsets": findings.average is not None,
        "pairs": findings.pairs is not None and bool(findings.pairs.interaction.any()),
        "why": findings.attribution is not None,
        "contests": bool(findings.contests),
        "check": findings.check is not None,
        "projection": bool(quality and quality.projection),
    }
    named = (
        ("next", "What to do next"),
        ("information", "Information"),
        ("groups", "Totals"),
        ("gallery", "Gallery"),
        ("pairs", "Pairs"),
        ("subsets", "Beside fewer"),
        ("why", "Why this prediction"),
        ("labels", "Label errors"),
        ("modes", "Learned when"),
        ("removal", "Removal"),
        ("contests", "Who won"),
        ("check", "Checked"),
        ("projection", "How many features"),
        ("method", "Method"),
    )
    return [(anchor, name) for anchor, name in named if there.get(anchor, True)]


def _lead(findings: Findings) -> str:
    samples = findings.samples
    parts = [count(len(samples), "training sample")]
    if findings.validation is not None:
        parts.append(count(len(findings.validation), "validation sample"))
    if samples.is_classification:
        parts.append(count(samples.n_classes, "class", "classes"))
    else:
        parts.append("regression")
    return ", ".join(parts)


def _gallery_note(findings: Findings, n_shown: int) -> str:
    n, n_issues = len(findings.samples), int(findings.issues.is_issue.sum())
    scope = "of each class" if findings.samples.is_classification else "of all"
    drawn = f"{n_shown} of {count(n, 'sample')} are drawn here: the most and least informative"
    if not n_issues:
        return f"{drawn} {scope}. No label is suspected."
    which = f"the {N_ISSUES} likeliest of {n_issues:,}" if n_issues > N_ISSUES else "all"
    return f"{drawn} {scope}, and {which} suspected label errors."


def _subset_note(findings: Findings) -> str:
    found = findings.average
    if found is None:
        return ""
    rank, stood = stand_ins(findings)
    sizes = ", ".join(percent(share) for share in found.fractions)
    text = (
        f"Means over {count(int(found.n_draws.max()), 'draw')} a sample at most, of {sizes} of the "
        f"samples. The rank correlation of both is {number(rank)}."
    )
    if not len(stood):
        return text
    ids = ", ".join(str(i) for i in findings.samples.ids[stood[:5]])
    return (
        f"{text} {count(len(stood), 'sample')}, first {ids}, gain{'s' if len(stood) == 1 else ''} "
        f"over {FACTOR:g} times as much as the median one: others stand in for them."
    )


def _issue_note(findings: Findings) -> str:
    if findings.samples.is_classification:
        rule = (
            "The score is the largest other held-out output minus that of the given label, minus "
            "0.25: above 0, a fit that never saw the sample clearly prefers another label."
        )
    else:
        rule = (
            "The score is the modified z-score of the held-out residual minus 3.5: above 0, "
            "the target is far from what a fit that never saw the sample predicts."
        )
    if findings.samples.true_y is None:
        return rule + " Which labels are really wrong is not known here."
    return rule + " The true labels are known here, so the colours show how right it is."


def _removal_note(findings: Findings) -> str:
    curve = findings.removal_curve
    if curve is None:
        return ""
    n_seeds = curve.score.shape[2]
    if n_seeds == 1:
        return "One seed only, so there are no error bars."
    return f"Lines are means, error bars one standard deviation, over {n_seeds} seeds."


def _contest(contest: Contest) -> dict[str, object]:
    best = np.nanmax(contest.values) if np.isfinite(contest.values).any() else None
    rows = []
    for name, value, spread in zip(contest.rankings, contest.values, contest.spreads, strict=True):
        text = number(value) + (f" ± {spread:.2g}" if spread > 0 else "")
        rows.append({"name": name, "value": text, "best": value == best})
    return {"measure": contest.measure, "verdict": contest.verdict, "rows": rows}
