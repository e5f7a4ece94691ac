"""What a network looks at: maps, masks, filters, cues, and readable baselines."""

import numpy as np
import pytest
import torch

from datassay.models import linear
from datassay.train import Recipe
from datassay_lab.fits import accuracy, digit_images, fit_network, outputs
from datassay_lab.looking.fourier_mask import fourier_mask
from datassay_lab.looking.texture_shape import SHAPES
from datassay_lab.looking.wavelets_trees import haar_basis


def test_map_lies_on_the_digit_and_its_mean_is_the_logit(small):
    result = small("class-activation")
    assert result.inside.mean() > 1.5 * result.area > result.untrained.mean()
    assert result.identity_error < 1e-4
    assert result.maps.shape == (4, 14, 14)
    assert result.shallow.mean() > result.area and abs(result.alike) < 0.9


def test_share_inside_the_box_by_hand():
    from datassay_lab.looking.class_activation import _share_inside

    maps = np.array([[[3.0, -5.0], [1.0, 0.0]]])  # each position covers 2 x 2 pixels
    box = np.zeros((1, 4, 4))
    box[0, :2, :4] = 1
    assert _share_inside(maps, box) == pytest.approx([0.75])


@pytest.mark.slow
def test_mask_finds_the_frequencies_that_matter(small):
    result = small("fourier-mask")
    assert result.learned[-1] == pytest.approx(result.full)  # all 34 pairs
    assert result.random[-1] == pytest.approx(result.full)
    assert result.kept_accuracy > result.full - 0.1
    assert np.allclose(result.mask[1:, 1:], result.mask[1:, 1:][::-1, ::-1])  # M(k) = M(−k)
    assert fourier_mask(steps=1).kept == 34


def test_masked_digits_are_real_and_lose_what_is_masked():
    from datassay_lab.looking.fourier_mask import _apply_mask, _pairs

    x, _ = digit_images(0, 3)
    mask = (_pairs() % 3 > 0).astype(float)
    spectrum = np.fft.fft2(_apply_mask(x, mask))
    assert np.allclose(spectrum, mask * np.fft.fft2(x))
    assert _pairs().max() == 33


def test_trained_filters_are_smooth(small):
    result = small("first-filters")
    assert abs(result.random.mean()) < 0.08
    assert abs(result.shuffled.mean()) < 0.1
    assert result.spectrum.sum() == pytest.approx(1)
    assert result.mirrored_asymmetry < 0.2 < 0.6 < result.asymmetry


def test_smoothness_is_a_correlation_of_neighbours():
    from datassay_lab.looking.first_filters import _smoothness

    filters = np.random.default_rng(0).normal(size=(1, 8, 8)).cumsum(axis=1)
    pairs = [(filters[0, r, c], filters[0, r, c + 1]) for r in range(8) for c in range(7)]
    pairs += [(filters[0, r, c], filters[0, r + 1, c]) for r in range(7) for c in range(8)]
    assert _smoothness(filters)[0] == pytest.approx(np.corrcoef(np.array(pairs).T)[0, 1])


@pytest.mark.slow
def test_random_textures_move_a_network_to_shapes(small):
    result = small("texture-shape")
    assert result.texture[1] > 0.9  # small patches cannot see a shape
    assert result.accuracy.min() > 0.5
    assert np.all(result.shape + result.texture <= 1)


def test_conflicts_never_agree():
    from datassay_lab.looking.texture_shape import _images

    images, shapes, textures = _images(np.random.default_rng(0), 40, "conflict")
    assert images.shape == (40, 24, 24)
    assert not np.any(shapes == textures)
    assert set(textures) == set(range(len(SHAPES)))


def test_small_trees_gain_from_wavelets(small):
    result = small("wavelets-trees")
    assert result.parseval_error < 1e-12
    assert result.tenth > 0.7 > 0.5 > result.pixel_energy[5]
    assert result.rules.count("class:") == 10
    assert result.network > result.tree.max()


def test_haar_basis_is_that_of_averages_and_differences():
    basis = haar_basis(4)
    assert np.allclose(basis @ basis.T, np.eye(16))
    x = np.random.default_rng(0).normal(size=(4, 4))
    coefficients = basis @ x.ravel()
    assert coefficients[0] == pytest.approx(x.mean() * 4)
    assert coefficients[1] == pytest.approx((x[:2].sum() - x[2:].sum()) / 4)
    corner = x[:2, :2]
    assert coefficients[4] == pytest.approx((corner[0].sum() - corner[1].sum()) / 2)


def test_trained_network_learns_and_leaves_the_generator_alone():
    x, y = digit_images(0, 400)
    state = torch.random.get_rng_state()
    model = fit_network(lambda: linear((1, 8, 8), 10), x, y, Recipe(lr=0.01, steps=200), seed=0)
    assert torch.equal(state, torch.random.get_rng_state())
    assert accuracy(model, x, y) > 0.95
    assert outputs(model, x).shape == (400, 10)
