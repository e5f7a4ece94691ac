"""Agreement and disagreement of several runs on the samples that they share."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from datassay.errors import DataError
from datassay.ranks import mean_ranks
from datassay.results import Tabular, result
from datassay.score.compare.stability import Stability, stability

FEWEST = 3  # shared samples


@dataclass(frozen=True, slots=True)
class RunScores:
    """One run's scores, as in its table.

    Attributes:
        ids: [n], one per sample, all different.
        information: [n], in the run's own unit; only its order is compared between runs.
        issue_score: [n], higher is more likely mislabelled.
        is_issue: [n], whether the run suspects the label.
    """

    ids: np.ndarray
    information: Float[np.ndarray, " n"]
    issue_score: Float[np.ndarray, " n"]
    is_issue: Bool[np.ndarray, " n"]


@result
class Consensus(Tabular):
    """Scores of r runs on the c samples that all of them have.

    Attributes:
        names: [r], of the runs.
        ids: [c], in the first run's order.
        positions: [r, c], of each sample in each run.
        information: [r, c], in each run's own unit.
        issue_score: [r, c].
        is_issue: [r, c].
        rank: [r, c], share of the samples with less information, in (0, 1); ties take their mean.
        information_agreement: correlations of information between runs; None where a run gives all
            samples one value.
        issue_agreement: the same for the label issue score.
        reliability: of the mean rank over the runs, in [0, 1]: the correlation to expect with the
            mean of as many other runs of the same kind; NaN without information_agreement.
    """

    names: tuple[str, ...]
    ids: np.ndarray
    positions: Int[np.ndarray, "r c"]
    information: Float[np.ndarray, "r c"]
    issue_score: Float[np.ndarray, "r c"]
    is_issue: Bool[np.ndarray, "r c"]
    rank: Float[np.ndarray, "r c"]
    information_agreement: Stability | None
    issue_agreement: Stability | None
    reliability: float

    @property
    def votes(self) -> Int[np.ndarray, " c"]:
        """How many runs suspect each label."""
        return self.is_issue.sum(0)

    @property
    def rank_range(self) -> Float[np.ndarray, " c"]:
        """Largest minus smallest rank of each sample over the runs."""
        return np.ptp(self.rank, axis=0)

    def to_table(self) -> pa.Table:
        """Return one row per shared sample: id, mean_rank, rank_range, votes, each run's scores."""
        columns: dict[str, object] = {
            "id": self.ids.tolist(),
            "mean_rank": self.rank.mean(0),
            "rank_range": self.rank_range,
            "votes": self.votes,
        }
        for r, name in enumerate(self.names):
            columns[f"information: {name}"] = self.information[r]
            columns[f"label_issue_score: {name}"] = self.issue_score[r]
            columns[f"is_issue: {name}"] = self.is_issue[r]
        return pa.table(columns)


def consensus(runs: Mapping[str, RunScores]) -> Consensus:
    """Return the samples that several runs share, by id, with all runs' scores.

    Args:
        runs: name → scores; two or more. Ids of different types are compared as text.

    Returns:
        The shared samples' scores and how far they agree.

    Raises:
        DataError: fewer than two runs, an id twice in one, or fewer than 3 samples in common.

    Cost: r² c operations and r sorts of c numbers.
    Source: S1 App. A.4, Fig. 5 (correlations). Votes and mean ranks are ours; the reliability of
    the mean is Spearman's and Brown's (1910), r ρ / (1 + (r − 1) ρ) with ρ the mean rank
    correlation of two runs; a negative one counts as 0.
    """
    if len(runs) < 2:
        raise DataError(f"two runs or more are needed to compare; got {len(runs)}.")
    ids = {name: run.ids.tolist() for name, run in runs.items()}
    if len({run.ids.dtype.kind for run in runs.values()}) > 1:
        ids = {name: list(map(str, run_ids)) for name, run_ids in ids.items()}
    positions = _match_ids(ids)
    first_run, *_ = runs.values()
    scores = list(zip(runs.values(), positions, strict=True))
    information = np.stack([run.information[rows] for run, rows in scores])
    issue_score = np.stack([run.issue_score[rows] for run, rows in scores])
    rank = (mean_ranks(information, axis=1) - 0.5) / information.shape[1]
    agreement = _measure_agreement(tuple(runs), information)
    return Consensus(
        names=tuple(runs),
        ids=first_run.ids[positions[0]],
        positions=positions,
        information=information,
        issue_score=issue_score,
        is_issue=np.stack([run.is_issue[rows] for run, rows in scores]),
        rank=rank,
        information_agreement=agreement,
        issue_agreement=_measure_agreement(tuple(runs), issue_score),
        reliability=np.nan if agreement is None else reliability(agreement.spearman),
    )


def reliability(correlations: Float[np.ndarray, "r r"]) -> float:
    """Return the expected correlation of means of r scores (Spearman–Brown), at least 0."""
    r = len(correlations)
    rho = max(0.0, mean_pair(correlations))
    return r * rho / (1 + (r - 1) * rho)


def mean_pair(correlations: Float[np.ndarray, "r r"]) -> float:
    """Return the mean correlation ρ of two of r scores: the mean above the diagonal."""
    return float(correlations[np.triu_indices(len(correlations), 1)].mean())


def _match_ids(ids: Mapping[str, list]) -> Int[np.ndarray, "r c"]:
    """Return the positions of the shared samples in each run, in the first run's order."""
    positions = {name: {i: p for p, i in enumerate(run_ids)} for name, run_ids in ids.items()}
    for name, position_of in positions.items():
        if len(position_of) < len(ids[name]):
            raise DataError(f"ids must differ within a run; {name} has one twice.")
    first_name, *other_names = ids
    common = [i for i in ids[first_name] if all(i in positions[name] for name in other_names)]
    if len(common) < FEWEST:
        names = ", ".join(
            f"{name} has {', '.join(map(str, run_ids[:3]))}, ..." for name, run_ids in ids.items()
        )
        raise DataError(
            f"the runs must share at least {FEWEST} ids; they share {len(common)} ({names}). Give "
            "runs of the same data, and --ids where rows were removed between them."
        )
    return np.array([[position_of[i] for i in common] for position_of in positions.values()])


def _measure_agreement(
    names: tuple[str, ...], scores: Float[np.ndarray, "r c"]
) -> Stability | None:
    """Return correlations between runs' scores; None if not finite, or constant in a run."""
    if not np.isfinite(scores).all() or (scores == scores[:, :1]).all(1).any():
        return None
    return stability(dict(zip(names, scores, strict=True)))
