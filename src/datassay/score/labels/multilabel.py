"""Several labels per sample: each is two classes, and a sample is suspect if any may be wrong."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from datassay.errors import DataError
from datassay.progress import Progress
from datassay.score.labels.issues import LabelIssues, mark_top, mask_array
from datassay.score.labels.likelihood import by_class
from datassay.score.labels.noise import Outputs, Refit, explain, flag_wrong, probability
from datassay.score.labels.ridge import RidgeFit

# Several targets per sample are several labels if this share of the values is 0 or 1.
MOSTLY = 0.9


def is_multilabel(targets: Float[Tensor, "n k"]) -> bool:
    """Return whether all of the k ≥ 2 targets are 0 or 1; raise if most are, but not all."""
    is_label = (targets == 0) | (targets == 1)
    if targets.shape[1] < 2 or is_label.double().mean() < MOSTLY:
        return False
    if not is_label.all():
        row, column = (int(i) for i in (~is_label).nonzero()[0])
        raise DataError(
            f"several labels per sample must each be 0 or 1; of {targets.numel():,} values "
            f"{int((~is_label).sum()):,} are neither, such as {float(targets[row, column])} in row "
            f"{row}, label {column}. Correct them, or give one target per sample."
        )
    return True


def find_multilabel_issues(
    fit: RidgeFit, noise: str, trusted: Bool[Tensor, " n"], progress: Progress
) -> LabelIssues:
    """Score samples by the log odds that any of their labels is wrong."""
    labels = fit.lin.targets.long()

    def make_refit(column: int) -> Refit:
        def refit(classes: Float[Tensor, "n 2"]) -> Outputs:
            targets = fit.lin.targets.double().clone()
            targets[:, column] = classes[:, 1]
            return [by_class(fit.held_out_of(targets, progress)[:, column : column + 1])]

        return refit

    parts = [
        explain([by_class(fit.held_out[:, j : j + 1])], make_refit(j), labels[:, j], noise, trusted)
        for j in range(labels.shape[1])
    ]
    low, high = (np.array([outcome.share[end] for outcome in parts]) for end in (0, 1))
    # Doubt about the noise is left out: with many labels one would always be doubtful.
    log_odds = torch.stack([outcome.by_noise for outcome in parts], 1)
    log_all_right = torch.nn.functional.logsigmoid(-log_odds).sum(1)
    score = (-torch.expm1(log_all_right)).log() - log_all_right  # ln P(any wrong) / P(all right)
    is_top = np.any([mark_top(outcome.log_odds, outcome.n_look) for outcome in parts], 0)
    worth_a_look = mask_array(score > 0) | is_top
    # Labels likelier wrong than right are flipped; of a sample worth a look the worst at least.
    worst = torch.where(torch.as_tensor(worth_a_look), log_odds.amax(1), torch.inf)
    least_flipped = worst.clamp(max=0)[:, None]
    return LabelIssues(
        score=score.numpy(),
        probability=probability(score).numpy(),
        suggested_label=torch.where(log_odds >= least_flipped, 1 - labels, labels).numpy(),
        is_issue=mask_array(flag_wrong(score)),
        worth_a_look=worth_a_look,
        share_wrong=(float(low.max()), min(1.0, float(high.sum()))),
        posterior=torch.stack([outcome.posterior[:, 1].exp() for outcome in parts], 1).numpy(),
        noise=tuple(outcome.noise for outcome in parts),
        held_out=fit.held_out.numpy(),
        ridge=fit.penalty,
        ids=fit.lin.ids,
        given_label=labels.numpy(),
        is_predicted=any(outcome.is_predicted for outcome in parts),
    )
