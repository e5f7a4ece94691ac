"""What a sampling says to do next: each sentence follows from figures that the page shows."""

from __future__ import annotations

from datassay.commands.sample.findings import SamplingFindings, Verdict, verdicts
from datassay.report.advice import Advice
from datassay.report.wording import count, number, percent

# Below this share of draws inside the domain the density is mostly elsewhere.
LOW_ACCEPTANCE = 0.2
# Above this share of the highest order in Df, ε reaches further than the expansion.
HIGH_ORDER = 0.5


def sampling_advice(findings: SamplingFindings) -> tuple[Advice, ...]:
    """What to do next, most urgent first.

    Args:
        findings: one sampling.

    Returns:
        Whether it helps, what is odd about the density and about ε, then how to use the files.
    """
    told = []
    if findings.comparison is not None:
        told.append(_help(*verdicts(findings.comparison), findings))
    told += [*_density(findings), *_epsilon(findings), _use(findings)]
    order = {"act": 0, "look": 1, "fine": 2}
    return tuple(sorted(told, key=lambda a: order[a.severity]))


def _help(mean: Verdict, largest: Verdict, findings: SamplingFindings) -> Advice:
    comparison = findings.comparison
    assert comparison is not None
    runs = count(comparison.largest.shape[1], "run")
    figures = (
        f"The largest error is {_pair(largest)} and the root mean square error {_pair(mean)}, over "
        f"{runs} of a small network."
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
    found, told = findings.found, []
    n, fitted, k = len(found.index), found.density.n_fitted, len(found.density.weight)
    for note in found.notes:
        told.append(Advice("density", "look", "The mixture is not as asked for", _sentence(note)))
    if not found.notes and fitted < 5 * k:
        told.append(
            Advice(
                "density", "look", "Few initial points carry the index",
                f"{count(fitted, 'point')} of {n:,} have at least a hundredth of the largest Df, "
                f"for {count(k, 'component')}: the density stands on little. Take more initial "
                "points, or a larger part of the domain where f is steep.",
            )
        )  # fmt: skip
    if found.acceptance < LOW_ACCEPTANCE:
        told.append(
            Advice(
                "density", "look", "Most draws fall outside the domain",
                f"Only {percent(round(found.acceptance, 3))} of them lay inside: f changes most at "
                "the edge. If f is defined beyond, widen the domain.",
            )
        )  # fmt: skip
    return told


def _sentence(note: str) -> str:
    return note[0].upper() + note[1:]


def _epsilon(findings: SamplingFindings) -> list[Advice]:
    found = findings.found
    if found.order == 1:
        return []
    share = float(found.terms[:, -1].sum() / found.index.sum())
    if share <= HIGH_ORDER:
        return []
    return [
        Advice(
            "ε", "look", f"Order {found.order} makes up most of Df",
            f"Its term is {percent(round(share, 3))} of all: ε reaches as far as f bends, where "
            "the expansion stops being one. Lower --epsilon to weigh the slope more.",
        )
    ]  # fmt: skip


def _use(findings: SamplingFindings) -> Advice:
    n, new = len(findings.found.x), int(findings.found.is_new.sum())
    return Advice(
        "files", "fine", "Train on samples.npz",
        f"It holds all {n:,} points, {new:,} of them new, as x and y: datassay run samples.npz "
        "reads it, and so does datassay.load. The table samples.parquet says which are new.",
    )  # fmt: skip
