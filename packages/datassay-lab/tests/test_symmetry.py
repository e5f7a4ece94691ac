"""Symmetry in data: augmentation, what it does to gradients, weights and spectra."""

import numpy as np
import pytest
import torch
from scipy.integrate import trapezoid

from datassay_lab.fits import digit_images, pixel_orders
from datassay_lab.symmetry.augmented_gradient import augmented_gradient
from datassay_lab.symmetry.symmetric_weights import symmetric_weights


@pytest.mark.parametrize(("group", "size"), [("shifts", 64), ("rotations", 4)])
def test_pixel_orders_form_a_group(group, size):
    orders = pixel_orders(group, 8)
    assert len({tuple(o) for o in orders}) == size
    assert tuple(orders[0]) == tuple(range(64))
    products = {tuple(a[b]) for a in orders for b in orders}
    assert products == {tuple(o) for o in orders}


@pytest.mark.parametrize("group", ["shifts", "rotations"])
def test_gradient_is_equivariant_on_full_orbits(group):
    result = augmented_gradient(n_images=4, width=5, group=group)
    assert result.agreement.holds
    assert result.half.max() > 0.01
    assert result.subgroup[::2].max() < 1e-12 < 0.01 < result.subgroup[1::2].max()


def test_gradient_of_augmented_digits_is_that_of_autograd():
    from datassay_lab.symmetry.augmented_gradient import _gradient

    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(7, 6)), rng.choice([-1.0, 1.0], 7)
    w, v = rng.normal(size=(3, 6)), rng.normal(size=3)
    weights = torch.tensor(w, requires_grad=True)
    outputs = torch.tanh(torch.tensor(x) @ weights.T) @ torch.tensor(v)
    torch.nn.functional.softplus(-torch.tensor(y) * outputs).mean().backward()
    assert np.allclose(_gradient(w, v, x, y), weights.grad.numpy())


@pytest.mark.parametrize("group", ["rotations", "shifts"])
def test_symmetric_weights_stay_symmetric(group):
    result = symmetric_weights(n_images=30, width=6, steps=40, group=group)
    assert result.agreement.holds
    assert result.no_orbits[-1] > 0.05
    assert result.random_start[-1] > 0.05  # the corollary needs its start
    assert result.random_gradient > 0.01  # and its proof as printed would make this 0


def test_symmetric_filters_look_the_same_after_a_quarter_turn(small):
    filters = small("symmetric-weights").filters
    turned = np.rot90(filters, axes=(1, 2))
    assert np.allclose(filters[:5], turned[:5])
    assert not np.allclose(filters[5:], turned[5:], atol=0.01)


def test_averaging_over_shifts_is_a_low_pass(small):
    result = small("shift-averaging")
    assert result.transfer.shape == (3, 40)
    a, k = result.half_widths[:, None], result.frequencies
    t = np.linspace(-1, 1, 20001)
    brute = trapezoid(np.cos(k[:, None] * a[2] * t), t, axis=1) * a[2]  # ∫ e^{ikt} dt
    assert np.allclose(result.transfer[2], brute, atol=1e-4)


def test_invariant_losses_have_no_slope_along_their_symmetry(small):
    result = small("invariant-loss")
    assert result.rotation_slope[0] > 0.1
    assert result.drift_exponent == pytest.approx(1, abs=0.1)
    across = np.array([-result.path[0, 1], result.path[0, 0]])  # of the ray of the start
    assert (
        np.abs(result.path @ across).max() < 1e-10 < 1e-2 < np.abs(result.plain_path @ across).max()
    )


def test_invariant_loss_gradients_are_those_of_autograd():
    from datassay_lab.symmetry.invariant_loss import _plane_gradient, _relu_gradients

    rng = np.random.default_rng(2)
    x, y, w1, w2 = (rng.normal(size=s) for s in ((6, 3), 6, (4, 3), 4))
    first, second = (torch.tensor(w, requires_grad=True) for w in (w1, w2))
    out = torch.relu(torch.tensor(x) @ first.T) @ second
    (0.5 * (out - torch.tensor(y)).square().mean()).backward()
    result = _relu_gradients(w1, w2, x, y)
    assert np.allclose(result[0], first.grad) and np.allclose(result[1], second.grad)
    plane = torch.tensor(w1[0, :2], requires_grad=True)
    loss = 0.0
    for angle in 2 * np.pi * np.arange(5) / 5:
        c, s = np.cos(angle), np.sin(angle)
        turned = torch.tensor(x[:, :2] @ np.array([[c, -s], [s, c]]).T)
        loss = loss + 0.5 * (torch.tanh(turned @ plane) - torch.tensor(y)).square().mean() / 5
    loss.backward()
    assert np.allclose(_plane_gradient(w1[0, :2], x[:, :2], y, 5), plane.grad)


def test_digit_images_are_drawn_by_the_seed():
    images, labels = digit_images(3, 20)
    assert images.shape == (20, 8, 8) and set(labels) <= set(range(10))
    assert np.array_equal(images, digit_images(3, 40)[0][:20])
    assert not np.array_equal(images, digit_images(4, 20)[0])
