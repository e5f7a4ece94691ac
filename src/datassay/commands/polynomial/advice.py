"""What a surrogate says to do next: each sentence follows from figures that the page shows."""

from __future__ import annotations

import numpy as np

from datassay.commands.polynomial.findings import PolynomialFindings
from datassay.report.advice import Advice, Severity
from datassay.report.wording import count, interval_text, percent, score_change
from datassay.stats import BETTER, SAME
from datassay.stats import sentence as in_words

# Scores of training samples this far above validation's say that the fit remembers; a share of
# the score lost at σ = 0.3 (S3's example) that a reader should know of.
SMALL, GAP, FRAGILE = 0.01, 0.05, 0.2
SIGMA = 0.3


def advice(findings: PolynomialFindings) -> tuple[Advice, ...]:
    """Whether products help, whether the fit generalises, how to read it, how robust it is."""
    pieces = (_help(findings), _gap(findings), _reading(findings))
    return (*pieces, _robust(findings)) if findings.robustness else pieces


def _help(findings: PolynomialFindings) -> Advice:
    scores = findings.scores
    ours, metric = float(scores.each[-1].mean()), scores.metric
    other = len(scores.names) - 2
    change, half = scores.difference(other)
    rival = scores.names[other]
    interval = interval_text(change, half, metric)
    verdict = scores.verdict(other)
    known = verdict != SAME
    severity: Severity = "fine" if verdict == BETTER else "look"
    before = float(scores.each[other].mean())
    if verdict == BETTER:
        headline = f"{_upper(metric)} {ours:.3f}, {score_change(change, metric)} above {rival}"
        then = "The products of inputs carry something that single inputs do not."
    elif known:
        headline = f"{_upper(metric)} {ours:.3f}, below {rival} by {score_change(change, metric)}"
        then = "Products only add noise here: read the linear model instead (--degree 1)."
    else:
        told = in_words(verdict, scores.names[-1], rival, start=False)
        headline = f"{_upper(metric)} {ours:.3f}: {told}"
        then = "The simpler model explains these samples as well: read that one (--degree 1)."
    if other == 0:
        then = "Degree 2 (--degree 2) would add products." if known else "Little is learned here."
    m = count(len(findings.validation), "validation sample")
    sentence = f"On {m} {rival} has {before:.3f}: {interval}. {then}"
    return Advice("score", severity, headline, sentence)


def _gap(findings: PolynomialFindings) -> Advice:
    scores = findings.scores
    train, val = float(scores.train[-1]), float(scores.each[-1].mean())
    gap = train - val
    both = (
        f"{_upper(scores.metric)} {train:.3f} on {count(scores.n_train, 'training sample')}, "
        f"{val:.3f} on validation samples."
    )
    lost = f"{score_change(gap, scores.metric)} lost on samples it has not seen"
    if gap < SMALL:
        headline = "It does as well on samples it has not seen"
        return Advice("fit", "fine", headline, f"{both} Its coefficients describe the data.")
    if gap < GAP:
        hint = "Part of its coefficients is of the training samples' own."
        return Advice("fit", "fine", f"Little is remembered: {lost}", f"{both} {hint}")
    hint = "A larger ridge, a lower degree or more samples make coefficients steadier."
    return Advice("fit", "look", f"It remembers its training samples: {lost}", f"{both} {hint}")


def _reading(findings: PolynomialFindings) -> Advice:
    spread = findings.degree_spread.mean(axis=1)
    total = float(spread.sum()) or 1.0
    shares = ", ".join(
        f"degree {t} {percent(round(float(s) / total, 2))}" for t, s in enumerate(spread, 1)
    )
    near = (
        "Neighbouring pixels are alike, so their coefficients trade off against each other: read "
        "areas, not single pixels."
        if findings.maps is not None
        else "Columns that go together share their effect in a way the ridge decides: read groups "
        "of them, and look at the sign of a coefficient only where its column stands alone."
    )
    return Advice(
        kind="reading",
        severity="fine",
        headline="Contributions of one prediction are exact; coefficients are not causes",
        sentence=(
            f"Of the spread of the outputs over validation samples: {shares}. {near} Another "
            "fit of about the same score, with more ridge or other batches, has other coefficients."
        ),
    )


def _robust(findings: PolynomialFindings) -> Advice:
    noise, patches = findings.robustness
    level = int(np.abs(noise.levels - SIGMA).argmin())
    shares = [percent(round(float(drop[level]), 3)) for drop in noise.drop]
    lost, sigma = float(noise.drop[-1, level]), f"σ = {noise.levels[level]:g}"
    beside = f", the linear model {shares[0]}" if len(shares) > 1 else ""
    sentence = (
        f"Noise of {sigma} costs this polynomial {shares[-1]} of its accuracy{beside}; a black "
        f"patch of {count(int(patches.levels[-1]), 'pixel')} costs it "
        f"{percent(round(float(patches.drop[-1, -1]), 3))} (on "
        f"{count(noise.hits.shape[2], 'validation image')})."
    )
    if lost < FRAGILE:
        return Advice("robustness", "fine", f"It bears noise of {sigma}", sentence)
    headline = f"Noise of {sigma} costs {percent(round(lost, 2))} of the accuracy"
    hint = " A larger ridge (--ridge) makes it steadier, at some cost on clean images."
    return Advice("robustness", "look", headline, sentence + hint)


def _upper(metric: str) -> str:
    return metric[:1].upper() + metric[1:]
