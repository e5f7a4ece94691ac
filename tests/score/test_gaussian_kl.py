"""The divergence with unequal covariances: by quadrature, and by refitting in weight space."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from datassay.errors import ModelError, SettingError
from datassay.score.information.gaussian_kl import gaussian_kl, kl_information
from datassay.score.sample_information import sample_information
from helpers.linearizations import linearization, random_jacobians, random_linearization, weights
from helpers.smoothing import RUN, lyapunov


def test_it_is_the_integral():
    """Along rotated axes the divergence is the sum of those in one dimension, by quadrature."""
    means, spreads = ([0.3, -1.0, 2.0], [1.0, 0.2, 1.5]), ([1.0, 0.5, 2.0], [1.3, 0.9, 0.7])
    oracle = 0.0
    for m, o, s, t in zip(*means, *spreads, strict=True):
        p, q = norm(m, s), norm(o, t)

        def density(x, p=p, q=q):
            return p.pdf(x) * (p.logpdf(x) - q.logpdf(x))

        oracle += quad(density, m - 12 * s, m + 12 * s)[0]
    g = torch.Generator().manual_seed(0)
    turn, _ = torch.linalg.qr(torch.randn(3, 3, generator=g, dtype=torch.float64))
    m, o, s, t = (torch.tensor(v, dtype=torch.float64) for v in (*means, *spreads))
    covariances = [turn @ torch.diag(v**2) @ turn.T for v in (s, t)]
    parts = gaussian_kl(turn @ m, covariances[0], turn @ o, covariances[1])
    assert sum(parts) == pytest.approx(oracle, rel=1e-9)
    assert parts[0] == pytest.approx(float(((m - o) / t).square().sum() / 2))


@pytest.mark.parametrize("dual", [True, False], ids=["dual", "primal"])
@pytest.mark.parametrize("b, c", [(1, 1), (2, 1), (1, 3)], ids=["binary", "joint", "averaged"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_against_refitting_in_weight_space(reduction, b, c, dual):
    n, p, batch = 18, 4, 3
    phi, r, val = random_jacobians(n, b, c, p, 5, seed=1)
    scale = n if reduction == "mean" else 1
    run = RUN | {"lr": scale * RUN["lr"], "weight_decay": RUN["weight_decay"] / scale}
    information = kl_information(
        linearization(phi, r, val, dual=dual), batch_size=batch, reduction=reduction, **run
    )
    share = (n - 1) / n if reduction == "mean" else 1
    shorter = RUN | {"lr": RUN["lr"] / share, "weight_decay": RUN["weight_decay"] * share}

    def fitted(keep, setting):
        x, y = phi[keep], r[keep]
        w = weights(x.flatten(0, 1), y.flatten(0, 1), "flow", *setting.values())
        return w, [lyapunov(x, y, w, a, setting, batch) for a in range(c)]

    (full, wide), oracle = fitted(torch.arange(n) >= 0, RUN), []
    for i in range(n):
        without, narrow = fitted(torch.arange(n) != i, shorter)
        total = 0.0
        for delta, before, after in zip((full - without).numpy().T, wide, narrow, strict=True):
            inverse = np.linalg.inv(after)
            logs = np.linalg.slogdet(after)[1] - np.linalg.slogdet(before)[1]
            total += 0.5 * (delta @ inverse @ delta + np.trace(inverse @ before) + logs - p)
        oracle.append(total)
    np.testing.assert_allclose(information.information, oracle, rtol=1e-8)
    assert (information.shape >= 0).all()


def test_with_many_samples_the_shift_is_that_of_a_constant_covariance():
    """Prop. 5.1 takes Σ₋ᵢ = Σ: right for the shift, while the shape adds a term it leaves out."""
    phi, r, val = random_jacobians(400, 1, 1, 3, 5, seed=2)
    lin = linearization(phi, r, val, dual=False)
    run = {"dynamics": "converged", "lr": 1e-3, "batch_size": 4}
    exact = kl_information(lin, **run)
    constant = sample_information(lin, smoothing="sgd", **run).information
    assert np.corrcoef(exact.shift, constant)[0, 1] > 0.999
    np.testing.assert_allclose(exact.shift.sum(), constant.sum(), rtol=0.05)
    small = kl_information(lin, **(run | {"lr": 1e-4}))
    np.testing.assert_allclose(small.shift, 10 * exact.shift, rtol=1e-7)  # ∝ b / η
    np.testing.assert_allclose(small.shape, exact.shape, rtol=1e-6)
    assert 0.1 < exact.shape.sum() / exact.shift.sum() < 0.5
    same = sample_information(lin, smoothing="kl", **run)
    np.testing.assert_array_equal(same.information, exact.information)
    assert same.to_table().equals(exact.to_table())


def test_a_sample_alone_in_its_direction_informs_without_limit():
    phi, r, val = random_jacobians(20, 1, 1, 5, 5, seed=3)
    phi[:, 0, 4], phi[:2, 0, :4] = 0, 0
    phi[:2, 0, 4] = 1.0
    lin, run = linearization(phi, r, val, dual=False), {"batch_size": 4, "dynamics": "converged"}
    information = kl_information(lin, **run)
    assert information.to_table().column_names == ["id", "information", "shift", "shape"]
    # Without one of the two the other is interpolated: no noise.
    assert np.flatnonzero(np.isinf(information.information)).tolist() == [0, 1]
    with pytest.raises(SettingError, match=r"without 2 of 20 it has none in some.*infinite: 0, 1"):
        sample_information(lin, smoothing="kl", **run)


def test_what_is_refused():
    lin = random_linearization(6, 1, 1, 9, 5, seed=4)
    with pytest.raises(SettingError, match="6 samples do not reach 6 directions"):
        kl_information(lin, batch_size=2, dynamics="converged")
    with pytest.raises(SettingError, match="batch_size must be a whole number"):
        kl_information(lin, batch_size=0)
    phi, r, _ = random_jacobians(5, 1, 1, 3, 2, seed=4)
    for dual in (True, False):
        with pytest.raises(ModelError, match="must depend on the weights"):
            kl_information(linearization(0 * phi, r, dual=dual), batch_size=2)
