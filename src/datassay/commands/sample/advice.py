"""What a sampling says to do next: each sentence follows from figures that the page shows."""

from __future__ import annotations

from datassay.commands.sample.findings import SamplingFindings, Verdict, verdicts
from datassay.report.advice import Advice, most_urgent_first
from datassay.report.wording import count, number, percent

# Below this share of draws inside the domain the density is mostly elsewhere.
LOW_ACCEPTANCE = 0.2
# Above this share of the highest order in Df, ε reaches further than the expansion.
HIGH_ORDER = 0.5


def advice(findings: SamplingFindings) -> tuple[Advice, ...]:
    """Whether it helps, what is odd about density and ε, and how to use the files; urgent first."""
    pieces = [_help(findings), *_density(findings), _epsilon(findings), _use(findings)]
    return most_urgent_first(piece for piece in pieces if piece is not None)


def _help(findings: SamplingFindings) -> Advice | None:
    comparison = findings.comparison
    if comparison is None:
        return None
    mean, largest = verdicts(comparison)
    figures = (
        f"The largest error is {_pair(largest)} and the root mean square error {_pair(mean)}, over "
        f"{count(comparison.largest.shape[1], 'run')} of a small network."
    )
    if "higher" in {largest.outcome, mean.outcome} and largest.outcome != "lower":
        return Advice(
            "does it help", "act", "Uniform points serve this network better",
            f"{figures} Sample uniformly, or take fewer new points and more components.",
        )  # fmt: skip
    if largest.outcome == "lower":
        cost = {
            "higher": " It pays for that with a higher mean error: part of the domain has fewer "
            "points now.",
            "lower": "",
            "unclear": " The mean error does not tell the two apart.",
        }[mean.outcome]
        return Advice(
            "does it help", "look" if mean.outcome == "higher" else "fine",
            "Taylor-based points lower the largest error", figures + cost,
        )  # fmt: skip
    if mean.outcome == "lower":
        headline = "Taylor-based points lower the mean error"
        return Advice("does it help", "fine", headline, figures)
    return Advice(
        "does it help", "look", "No difference that these runs can show",
        f"{figures} Intervals of the change hold 0. More runs could tell; so could a "
        "network with room for what the new points show.",
    )  # fmt: skip


def _pair(verdict: Verdict) -> str:
    (u, u_half), (t, t_half) = verdict.uniform, verdict.taylor
    return f"{number(t)} ± {number(t_half)} instead of {number(u)} ± {number(u_half)}"


def _density(findings: SamplingFindings) -> list[Advice]:
    sample = findings.sample
    n, fitted, k = len(sample.index), sample.density.n_fitted, len(sample.density.weight)
    pieces = [
        Advice("density", "look", "The mixture is not as asked for", note[0].upper() + note[1:])
        for note in sample.notes
    ]
    if not sample.notes and fitted < 5 * k:
        pieces.append(Advice(
            "density", "look", "Few initial points carry the index",
            f"{count(fitted, 'point')} of {n:,} have at least a hundredth of the largest Df, "
            f"for {count(k, 'component')}: the density stands on little. Take more initial "
            "points, or a larger part of the domain where f is steep.",
        ))  # fmt: skip
    if sample.acceptance < LOW_ACCEPTANCE:
        pieces.append(Advice(
            "density", "look", "Most draws fall outside the domain",
            f"Only {percent(round(sample.acceptance, 3))} of them lay inside: f changes most at "
            "the edge. If f is defined beyond, widen the domain.",
        ))  # fmt: skip
    return pieces


def _epsilon(findings: SamplingFindings) -> Advice | None:
    sample = findings.sample
    share = float(sample.terms[:, -1].sum() / sample.index.sum())
    if sample.order == 1 or share <= HIGH_ORDER:
        return None
    return Advice(
        "ε", "look", f"Order {sample.order} makes up most of Df",
        f"Its term is {percent(round(share, 3))} of all: ε reaches as far as f bends, where "
        "the expansion stops being one. Lower --epsilon to weigh the slope more.",
    )  # fmt: skip


def _use(findings: SamplingFindings) -> Advice:
    return Advice(
        "files", "fine", "Train on samples.npz",
        f"It holds all {len(findings.sample.x):,} points, {findings.n_new:,} of them new, as x and "
        "y: datassay run samples.npz reads it, and so does datassay.load. The table "
        "samples.parquet says which are new.",
    )  # fmt: skip
