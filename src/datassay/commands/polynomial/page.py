"""The page of a polynomial surrogate: tables and maps; `text/polynomial.md.j2` says the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from datassay.commands.polynomial import figures
from datassay.commands.polynomial.explained import explained_cards
from datassay.commands.polynomial.files import FILES
from datassay.commands.polynomial.findings import PolynomialFindings, term_names
from datassay.report.compose import compose
from datassay.report.drawing import heat_image, heat_limit
from datassay.report.page import Page, Partial, Row, Table
from datassay.report.wording import number, percent, signed

N_COEF, MAX_OUTPUTS = 20, 12
# Scores of training samples this far above validation's say that the fit remembers; a share of
# the score lost at σ = 0.3 (S3's example) that a reader should know of.
SAME, GAP, FRAGILE = 0.01, 0.05, 0.2
SIGMA = 0.3


def page(findings: PolynomialFindings) -> Page:
    """Everything that the command says."""
    scores, facts, surrogate = findings.scores, findings.facts, findings.surrogate
    spread = findings.degree_spread.mean(axis=1)
    total, other = float(spread.sum()) or 1.0, len(scores.names) - 2
    change, half = scores.difference(other)
    cards, maps = explained_cards(findings), _maps(findings)
    largest = _largest(findings)
    numbers = {
        "findings": findings,
        "n_features": surrogate.polynomial.monomials.n_features,
        "ours": float(scores.each[-1].mean()),
        "train": float(scores.train[-1]),
        "other": scores.names[other],
        "before": float(scores.each[other].mean()),
        "change": change,
        "half": half,
        "verdict": scores.verdict(other),
        "name": scores.names[-1],
        "same_gap": SAME,
        "large_gap": GAP,
        "fragile": FRAGILE,
        "degree_shares": ", ".join(
            f"degree {t} {percent(round(float(s) / total, 2))}" for t, s in enumerate(spread, 1)
        ),
        "noise": _noise(findings),
        "levels": figures.LEVELS,
        "maps": maps,
        "n_largest": len(largest) - 1,
        "n_outputs": len(surrogate.output_names),
        "most_outputs": MAX_OUTPUTS,
        "shows_wrong": any(card.is_wrong for card in cards),
    }
    fit = findings.fit
    blocks: dict[str, object] = {
        "scores": _scores(findings),
        "coefficients": _coefficients(findings, largest) if findings.maps is None else None,
        "spread": _spread(findings),
        "apart": Partial("apart.html", {"cards": cards}),
        **{str(one["name"]): one["pictures"] for one in maps},
    }
    if fit is not None and fit.path is not None:
        blocks["ridge"] = figures.ridge_figure(fit.path)
    elif fit is not None and fit.curve is not None:
        blocks["batches"] = figures.batch_figure(fit.curve)
    for robust in findings.robustness:
        blocks[robust.corruption] = figures.level_figure(robust, lost=False)
        blocks[f"{robust.corruption}_drop"] = figures.level_figure(robust, lost=True)
    page = compose(
        "polynomial",
        blocks,
        numbers,
        facts=facts,
        warnings=findings.samples.warnings + findings.warnings,
        files=FILES,
        columns=findings.samples.columns,
    )
    headlines = (f"{piece.headline}." for piece in page.advice)
    return replace(page, answer=(f"{facts['Features']}; {facts['Fit']}.", *headlines))


def _noise(findings: PolynomialFindings) -> Mapping[str, object] | None:
    """What noise of about σ = 0.3 and the largest patch cost; None where nothing was corrupted."""
    if not findings.robustness:
        return None
    noise, patches = findings.robustness
    level = int(np.abs(noise.levels - SIGMA).argmin())
    return {
        "sigma": noise.levels[level],
        "lost": float(noise.drop[-1, level]),
        "linear": noise.drop[0, level] if len(noise.drop) > 1 else None,
        "patch": int(patches.levels[-1]),
        "patch_lost": patches.drop[-1, -1],
        "n": noise.hits.shape[2],
    }


def _maps(findings: PolynomialFindings) -> list[dict[str, object]]:
    """One picture an output and degree, where there are images; all of a degree have one scale."""
    if findings.maps is None:
        return []
    names, maps = findings.surrogate.output_names, []
    for name, title, values in (
        ("degree_1", "Degree 1: single pixels", findings.maps.degree_1),
        ("degree_2", "Degree 2: pairs of pixels, at their middle", findings.maps.degree_2),
    ):
        if name == "degree_2" and not values.any():
            continue
        limit = heat_limit(values)
        pictures = [(n, heat_image(v, limit)) for n, v in zip(names, values, strict=True)]
        shown = Partial("maps.html", {"limit": number(limit), "pictures": pictures})
        beyond = (np.abs(values) > limit).mean()
        maps.append({
            "name": name,
            "title": title,
            "pictures": shown,
            "limit": limit,
            "beyond": beyond,
        })
    return maps


def _scores(findings: PolynomialFindings) -> Table:
    """Simpler models and this one, a row each."""
    scores, rows = findings.scores, []
    for i, name in enumerate(scores.names):
        better, interval = "–", "–"
        if i < len(scores.names) - 1:
            change, half = scores.difference(i)
            better = signed(change, scores.metric)
            low, high = (signed(change + s * half, scores.metric) for s in (-1, 1))
            interval = f"{low} to {high}"
        val, train = (_score(float(values[i].mean())) for values in (scores.each, scores.train))
        rows.append(Row(name, (f"{scores.n_features[i]:,}", val, train, better, interval)))
    unit = ", points" if scores.metric == "accuracy" else ""
    columns = (
        "model", "features", f"validation {scores.metric}", f"training {scores.metric}",
        f"ours better by{unit}", "95 % interval",
    )  # fmt: skip
    return Table("Scores", columns, tuple(rows), in_terminal=True)


def _score(value: float) -> str:
    return f"{value:.3f}".replace("-0.000", "0.000").replace("-", "−")


def _spread(findings: PolynomialFindings) -> Table:
    """What each degree adds to the outputs."""
    names, spread = findings.surrogate.output_names, findings.degree_spread
    own = "class" if findings.samples.is_classification else "target"
    columns = (own, *(f"degree {t}" for t in range(1, len(spread) + 1)))
    rows = [
        Row(name, tuple(number(float(s)) for s in of_output))
        for name, of_output in zip(names[:MAX_OUTPUTS], spread.T, strict=False)
    ]
    return Table("Spread by degree", columns, tuple(rows), wraps=False)


def _largest(findings: PolynomialFindings) -> list[int]:
    """The constant, then the products with the largest coefficient among the outputs shown."""
    shown = findings.surrogate.polynomial.monomial_coef[:, :MAX_OUTPUTS]  # [p, q]
    order = np.argsort(-np.abs(shown[1:]).max(axis=1), kind="stable")[:N_COEF] + 1
    return [0, *order.tolist()]


def _coefficients(findings: PolynomialFindings, largest: list[int]) -> Table:
    shown = findings.surrogate.polynomial.monomial_coef[:, :MAX_OUTPUTS]
    names = ["constant", *term_names(findings.surrogate)[1:]]
    rows = tuple(Row(names[k], tuple(_coef(float(v)) for v in shown[k])) for k in largest)
    columns = ("product", *findings.surrogate.output_names[:MAX_OUTPUTS])
    return Table("Coefficients", columns, rows, wraps=False)


def _coef(value: float) -> str:
    return ("−" if value < 0 else "") + number(abs(value))
