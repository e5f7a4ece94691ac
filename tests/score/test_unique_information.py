"""S1 eqs. 1-3 on a small simulated SGD: unique information beside its leave-one-out bound."""

import numpy as np
import torch
from scipy.stats import multivariate_normal

from datassay.score.information.gaussian_kl import gaussian_kl

RUNS, STEPS, BATCH, STEP = 1500, 80, 2, 0.1


def weights(x, y, g):
    """Two weights of RUNS runs of SGD, batches drawn with replacement."""
    w = torch.zeros(RUNS, 2, dtype=torch.float64)
    for _ in range(STEPS):
        drawn = torch.randint(len(y), (RUNS, BATCH), generator=g)
        error = (x[drawn] * w[:, None]).sum(2) - y[drawn]
        w = w - STEP * (error[:, :, None] * x[drawn]).mean(1)
    return w


def test_the_bound_holds_in_the_mean_over_fresh_samples_and_not_for_each():
    """Lemma B.1: mean KL(p_z ‖ q) − mean KL(p_z ‖ mixture) = KL(mixture ‖ q) ≥ 0.

    S1 prints eq. 2 for one sample, where it fails: a fresh sample that the rest already predicts
    leaves the weights as they were (bound near 0), yet not where the mixture is.
    """
    g = torch.Generator().manual_seed(0)
    x = torch.randn(12, 2, generator=g, dtype=torch.float64)
    y = x.sum(1) + 0.5 * torch.randn(12, generator=g, dtype=torch.float64)
    fresh = torch.randn(8, 2, generator=g, dtype=torch.float64)
    labels = fresh.sum(1) + torch.tensor([0.0, 0, 0, 1, -1, 2, -2, 3])
    runs = [weights(x, y, g)]
    for a, b in zip(fresh, labels, strict=True):
        runs.append(weights(torch.cat([x, a[None]]), torch.cat([y, b[None]]), g))
    moments = [(w.mean(0), w.T.cov()) for w in runs]
    q, p = moments[0], moments[1:]
    bound = np.array([sum(gaussian_kl(*one, *q)) for one in p])
    normal = [multivariate_normal(m.numpy(), c.numpy()) for m, c in p]
    other = multivariate_normal(q[0].numpy(), q[1].numpy())

    def mixture(w):
        return np.log(np.mean([one.pdf(w) for one in normal], 0))

    draws = [one.rvs(8000, random_state=k) for k, one in enumerate(normal)]
    unique = np.array([
        (one.logpdf(w) - mixture(w)).mean() for one, w in zip(normal, draws, strict=True)
    ])
    everything = np.concatenate(draws)
    gap = (mixture(everything) - other.logpdf(everything)).mean()
    np.testing.assert_allclose(bound.mean() - unique.mean(), gap, rtol=0.05)
    assert 0.1 < unique.mean() < bound.mean()
    assert (unique > bound + 0.02).any()
