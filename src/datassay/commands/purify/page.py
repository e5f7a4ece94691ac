"""The page of a purification."""

from __future__ import annotations

import math

import numpy as np

from datassay.commands.purify.advice import purify_advice
from datassay.commands.purify.figures import purify_figures
from datassay.commands.purify.findings import PurifyFindings, before_and_after, foreign
from datassay.commands.purify.gallery import removed_cards
from datassay.commands.purify.method import RULE_WORDS, purify_notes
from datassay.report.old_html import advice_cards, card_kind, render
from datassay.report.page import Row
from datassay.report.wording import count, number, percent

SCRIPTS = ("figures.js", "gallery.js")


def render_purify_page(findings: PurifyFindings) -> str:
    """The purification as one self-contained HTML page; see `html.render` for what it promises.

    Args:
        findings: one purification.

    Returns:
        HTML.
    """
    return render("purify.html", SCRIPTS, _context(findings), purify_figures(findings))


def _context(findings: PurifyFindings) -> dict[str, object]:
    samples, found, truth = findings.samples, findings.found, foreign(findings)
    shown = removed_cards(findings)
    sections = [("next", "What to do next"), ("curve", "Against samples removed")]
    sections += [("rule", "When to stop"), ("gallery", "Removed samples")]
    sections += [("classes", "Classes")] * samples.is_classification
    return {
        "brand": "datassay purify · which training samples to leave out",
        "title": samples.name,
        "lead": f"{count(len(found.removed), 'sample')} of {len(samples):,} to leave out, "
        f"{len(found.keep):,} to keep",
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": advice_cards(purify_advice(findings)),
        "gallery_view": "all",
        "sections": [*sections, ("method", "Method")],
        "compared_columns": compared_columns(findings),
        "compared": compared_rows(findings),
        "metric": findings.metric,
        "rule_note": _rule_note(findings),
        "foreign": truth,
        "samples": samples,
        "cards": shown,
        "card_kind": card_kind(shown),
        "gallery_note": _gallery_note(findings, len(shown)),
        "class_rows": class_rows(findings),
        "method": purify_notes(findings),
    }


def compared_columns(findings: PurifyFindings) -> list[str]:
    """Headings of `compared_rows`.

    Args:
        findings: one purification.

    Returns:
        The first is of the row names.
    """
    ours = {"loss": "by loss", "random": "at random"}.get(findings.found.order, "by influence")
    columns = ["", "all samples", ours]
    return columns if findings.rival is None else [*columns, "by loss, same rule"]


def compared_rows(findings: PurifyFindings) -> list[Row]:
    """Start, our stop and the rival's as a table.

    Args:
        findings: one purification.

    Returns:
        One row a figure that is known.
    """
    columns, metric = before_and_after(findings), findings.metric
    named = {
        "removed": "samples removed",
        "variance": "V",
        "loss": "mean training loss",
        "validation": f"validation {metric}",
        "majority": f"the same, {findings.majority} alone",
        "precision": "precision of removal",
        "recall": "recall of removal",
    }
    rows = []
    for key, name in named.items():
        values = [column[key] for column in columns]
        if any(math.isfinite(v) for v in values):
            rows.append(Row(name, tuple(_cell(key, v) for v in values)))
    return rows


def _cell(key: str, value: float) -> str:
    if math.isnan(value):
        return "–"
    if key == "removed":
        return f"{value:,}"
    return number(value) if key in {"variance", "loss"} else f"{value:.3f}"


def class_rows(findings: PurifyFindings) -> list[Row]:
    """Samples of each class before and after.

    Args:
        findings: one purification.

    Returns:
        Before, removed, after, share removed; empty for a regression.
    """
    samples = findings.samples
    if not samples.is_classification:
        return []
    before = np.bincount(samples.y, minlength=samples.n_classes)
    lost = np.bincount(samples.y[findings.found.removed], minlength=samples.n_classes)
    return [
        Row(
            samples.class_names[c],
            (
                f"{before[c]:,}",
                f"{lost[c]:,}",
                f"{before[c] - lost[c]:,}",
                percent(round(float(lost[c] / max(1, before[c])), 3)),
            ),
        )
        for c in np.flatnonzero(before)
    ]


def _rule_note(findings: PurifyFindings) -> str:
    found = findings.found
    told = RULE_WORDS[found.rule]
    if found.rule != "held_out":
        return told
    return told + f" Here the threshold is {number(found.threshold)} nats."


def _gallery_note(findings: PurifyFindings, n_shown: int) -> str:
    n = len(findings.found.removed)
    if not n:
        return "No sample was removed."
    drawn = "All of them" if n == n_shown else f"The first {n_shown} of {n:,}"
    arrow = "The arrow gives the label that the model fitted to the kept samples prefers"
    chance = ", and p the chance that it gives the label as it stands"
    return f"{drawn}, in the order of removal. {arrow}" + (
        f"{chance}." if findings.samples.is_classification else "."
    )
