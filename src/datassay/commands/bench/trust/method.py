"""The method section of a trust check: what was trained, what the figures mean, the rule."""

from __future__ import annotations

from datassay.commands.bench.trust.findings import TrustFindings
from datassay.score.compare.trust import ENOUGH, LITTLE, LOWEST_CEILING

PREDICTION = (
    "A score of a prediction says what each training sample adds to a query's {measure}. The sum "
    "over a half is compared with the {measure} of one network trained on that half: Spearman's "
    "correlation over the halves, mean over queries and both networks (Park et al. 2023, with one "
    "network a half)."
)
CEILING = (
    "Two networks of the same half differ by first weights and batches alone. Their correlation "
    "over halves is what seeds leave of a half's effect; its square root is the correlation that "
    "a perfect prediction of the mean over seeds would have with one network. Averages over "
    "networks of several seeds can be predicted better than that."
)
SAMPLE = (
    "A score of a sample is compared with the fall of its own loss by its presence: mean loss in "
    "networks trained without it minus with it (Feldman and Zhang 2020 ask the same of the chance "
    "to be right). The correlation is over samples, divided by the square root of the falls' "
    "reliability, so that it does not depend on how many halves were trained (Spearman 1904)."
)
SCORES = (
    "influence, self-influence: at the trained weights of one network, and the mean of three. "
    "attribution at the start, left-out loss, information, label issue score: closed forms of the "
    "network linearised at its first weights, as datassay run has them. Free scores cost nothing "
    "beside trained networks. loss alone: each sample's final loss (of a regression its residual), "
    "the same for every query. similar and alike: cosine of the last layer's features, positive "
    "for the same label. final loss, smallest margin: of the three networks."
)
RULE = (
    "By the least share of the ceiling that both 95 % intervals allow, the low end of the score's "
    f"over the high end of the ceiling's: trust from {ENOUGH:g} on, do not trust below "
    f"{LITTLE:g}, or where the ceiling is below {LOWEST_CEILING:g}; else with care. Of samples the "
    "ceiling is 1. The shares were chosen on other data than the check was judged by."
)
SMOOTHNESS = (
    "One network was trained twice from the same seed, the second time with every first weight "
    "moved by one part in a million. Outcomes part by {parting:.2g}; a sample moves them by about "
    "{single:.2g}, half of the samples by {half:.2g}; influence of both runs agrees with rank "
    "correlation {agreement:.2f}."
)


def notes(findings: TrustFindings) -> tuple[tuple[str, str], ...]:
    """Terms and what they mean in this check."""
    check, terms = findings.check, []
    measure = "margin" if findings.samples.is_classification else "output"
    terms = [
        ("A prediction", PREDICTION.format(measure=measure)),
        ("Ceiling", CEILING),
        ("A sample", SAMPLE),
        ("Scores", SCORES),
        ("Verdict", RULE),
    ]
    if check.smoothness is not None:
        told = SMOOTHNESS.format(**check.smoothness.means, agreement=check.smoothness.agreement)
        terms.append(("Rounding", told))
    return tuple(terms)
