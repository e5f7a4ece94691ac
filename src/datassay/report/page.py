"""The page: one HTML file that opens from disk, asks no network, and escapes what users wrote."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from datassay.act.rivals import Contest
from datassay.report.advice import Advice, advice
from datassay.report.figures import figures
from datassay.report.findings import Findings
from datassay.report.gallery import N_ISSUES, cards
from datassay.report.group_tables import GROUP_COLUMNS, group_tables
from datassay.report.method import method_notes
from datassay.report.queries import effect_words, query_data, query_note
from datassay.report.wording import count, number

TEMPLATES = Path(__file__).parent / "templates"


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
    import jinja2
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    trusted = {
        "css": (TEMPLATES / "page.css").read_text(encoding="utf-8"),
        "js": (TEMPLATES / "page.js").read_text(encoding="utf-8"),
        "plotly": get_plotlyjs(),
    }
    page = environment.get_template("page.html").render(
        **_context(findings),
        **{name: _markup(text) for name, text in trusted.items()},
        figures={
            name: {"json": _markup(script_json(spec)), "text": text}
            for name, (spec, text) in figures(findings).items()
        },
    )
    return page.lstrip()


def script_json(text: str) -> str:
    """JSON that can stand inside a script element: no character can end the element.

    Args:
        text: JSON.

    Returns:
        The same JSON value with <, > and & as unicode escapes.
    """
    # In JSON these three occur only inside strings, where the escape means the same character.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)  # only our own files, and JSON that script_json has escaped


def _context(findings: Findings) -> dict[str, object]:
    shown = cards(findings)
    facts = {name.lower(): value for name, value in findings.facts.items()}
    samples, curve = findings.samples, findings.removal_curve
    metric = "accuracy" if samples.is_classification else "R²"
    metric = metric if curve is None else curve.metric
    return {
        "samples": samples,
        "lead": _lead(findings),
        "facts": [f for f in findings.facts.items() if f[0].lower() not in {"command", "version"}],
        "warnings": findings.warnings,
        "advice": [{**asdict(a), "tag": _tag(a)} for a in advice(findings)],
        "cards": shown,
        "card_kind": "image" if shown and shown[0].drawing.image else _list_kind(shown),
        "gallery_note": _gallery_note(findings, len(shown)),
        "group_tables": group_tables(findings),
        "group_columns": GROUP_COLUMNS,
        **_explained(findings),
        "issue_note": _issue_note(findings),
        "removal_note": _removal_note(findings),
        "metric_title": metric[:1].upper() + metric[1:],
        "contests": [_contest(contest) for contest in findings.contests],
        "method": method_notes(findings),
        "version": facts.get("version", version("datassay")),
        "seed": facts.get("seed", ""),
        "command": facts.get("command", ""),
    }


def _explained(findings: Findings) -> dict[str, object]:
    """The section on single predictions; nothing where there was no attribution."""
    if findings.attribution is None:
        return {"queries": None}
    what, raised, lowered = effect_words(findings)
    return {
        "queries": _markup(script_json(query_data(findings))),
        "query_note": query_note(findings),
        "effect_of": what,
        "raised": raised,
        "lowered": lowered,
    }


def _tag(told: Advice) -> str:
    if told.kind == "contest":
        return "Who won" if told.severity == "fine" else "Who won · a rival did better"
    word = {"act": "Act", "look": "Look", "fine": "Fine"}[told.severity]
    return f"{word} · {told.kind}"


def _list_kind(shown: tuple) -> str:
    return "row" if shown and shown[0].drawing.values else "text"


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
