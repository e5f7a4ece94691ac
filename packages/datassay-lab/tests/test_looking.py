"""What a network looks at: maps, masks, filters, cues, and readable baselines."""

import numpy as np
import pytest
import torch

from datassay.errors import SettingError
from datassay.models import linear
from datassay.train import Recipe
from datassay_lab.fits import digit_images
from datassay_lab.looking.class_activation import class_activation, class_activation_plots
from datassay_lab.looking.first_filters import first_filters, first_filters_plots
from datassay_lab.looking.fourier_mask import fourier_mask, fourier_mask_plots
from datassay_lab.looking.image_training import accuracy, outputs, trained
from datassay_lab.looking.texture_shape import SHAPES, texture_shape, texture_shape_plots
from datassay_lab.looking.wavelets_trees import haar_basis, wavelets_trees, wavelets_trees_plots

SMALL_MAP = {"canvas": 14, "n_train": 800, "steps": 150}
SMALL_MASK = {"steps": 150}
SMALL_FILTERS = {"width": 20, "steps": 300}
SMALL_CUES = {"n_train": 300, "steps": 100}
SMALL_TREES = {"leaves": (10, 20), "draws": 2}


def test_map_lies_on_the_digit_and_its_mean_is_the_logit():
    result = class_activation(**SMALL_MAP)
    assert result.agreement.holds
    assert result.inside.mean() > 1.5 * result.area > result.untrained.mean()
    assert result.identity_error < 1e-4
    assert result.maps.shape == (4, 14, 14)
    again = [class_activation(**SMALL_MAP | {"steps": 3}) for _ in range(2)]
    assert np.array_equal(again[0].maps, again[1].maps)


def test_map_of_an_untrained_network_lies_nowhere():
    assert not class_activation(**SMALL_MAP | {"steps": 1}).agreement.holds


def test_share_inside_the_box_by_hand():
    from datassay_lab.looking.class_activation import _inside

    maps = np.array([[[3.0, -5.0], [1.0, 0.0]]])  # each place covers 2 x 2 pixels
    box = np.zeros((1, 4, 4))
    box[0, :2, :4] = 1
    assert _inside(maps, box) == pytest.approx([0.75])


def test_mask_finds_the_frequencies_that_matter():
    result = fourier_mask(**SMALL_MASK)
    assert result.agreement.holds
    assert result.learned[-1] == pytest.approx(result.full)  # all 34 pairs
    assert result.random[-1] == pytest.approx(result.full)
    assert result.kept_accuracy > result.full - 0.1
    assert np.allclose(result.mask[1:, 1:], result.mask[1:, 1:][::-1, ::-1])  # M(k) = M(−k)
    assert np.array_equal(result.mask, fourier_mask(**SMALL_MASK).mask)


def test_mask_without_training_keeps_all():
    result = fourier_mask(steps=1)
    assert result.kept == 34
    assert not result.agreement.holds


def test_masked_digits_are_real_and_lose_what_is_masked():
    from datassay_lab.looking.fourier_mask import _masked, _pairs

    x, _ = digit_images(0, 3)
    mask = (_pairs() % 3 > 0).astype(float)
    spectrum = np.fft.fft2(_masked(x, mask))
    assert np.allclose(spectrum, mask * np.fft.fft2(x))
    assert _pairs().max() == 33


def test_trained_filters_are_smooth():
    result = first_filters(**SMALL_FILTERS)
    assert result.agreement.holds
    assert abs(result.random.mean()) < 0.08
    assert abs(result.shuffled.mean()) < 0.1
    assert result.spectrum.sum() == pytest.approx(1)
    assert result.mirrored_asymmetry < 0.2 < 0.6 < result.asymmetry
    assert np.array_equal(result.filters, first_filters(**SMALL_FILTERS).filters)


@pytest.mark.parametrize("variant", [{"shuffle_pixels": True}, {"start": 10.0}])
def test_filters_stay_rough_without_neighbours_or_with_large_starts(variant):
    assert not first_filters(**SMALL_FILTERS, **variant).agreement.holds


def test_smoothness_is_a_correlation_of_neighbours():
    from datassay_lab.looking.first_filters import _smoothness

    filters = np.random.default_rng(0).normal(size=(1, 8, 8)).cumsum(axis=1)
    pairs = [(filters[0, r, c], filters[0, r, c + 1]) for r in range(8) for c in range(7)]
    pairs += [(filters[0, r, c], filters[0, r + 1, c]) for r in range(7) for c in range(8)]
    assert _smoothness(filters)[0] == pytest.approx(np.corrcoef(np.array(pairs).T)[0, 1])


def test_random_textures_move_a_network_to_shapes():
    result = texture_shape(**SMALL_CUES)
    assert result.agreement.holds
    assert result.texture[1] > 0.9  # small patches cannot see a shape
    assert result.accuracy.min() > 0.5
    assert np.all(result.shape + result.texture <= 1)
    again = [texture_shape(n_train=40, steps=3, seed=5) for _ in range(2)]
    assert np.array_equal(again[0].shape, again[1].shape)


def test_agreeing_textures_are_no_remedy():
    assert not texture_shape(**SMALL_CUES, remedy="agreeing").agreement.holds


def test_conflicts_never_agree():
    from datassay_lab.looking.texture_shape import _images

    images, shapes, textures = _images(np.random.default_rng(0), 40, "conflict")
    assert images.shape == (40, 24, 24)
    assert not np.any(shapes == textures)
    assert set(textures) == set(range(len(SHAPES)))


def test_small_trees_gain_from_wavelets():
    result = wavelets_trees(**SMALL_TREES)
    assert result.agreement.holds
    assert result.parseval_error < 1e-12
    assert result.tenth > 0.7 > 0.5 > result.pixel_energy[5]
    assert result.rules.count("class:") == 10
    assert result.network > result.tree.max()
    assert np.array_equal(result.tree, wavelets_trees(**SMALL_TREES).tree)


def test_a_random_basis_gains_nothing():
    assert not wavelets_trees(**SMALL_TREES, basis="random").agreement.holds


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
    model = trained(lambda: linear((1, 8, 8), 10), x, y, Recipe(lr=0.01, steps=200), seed=0)
    assert torch.equal(state, torch.random.get_rng_state())
    assert accuracy(model, x, y) > 0.95
    assert outputs(model, x).shape == (400, 10)


@pytest.mark.parametrize(
    ("run", "wrong", "said"),
    [
        (class_activation, {"canvas": 8}, "canvas must be a whole number >= 12"),
        (class_activation, {"canvas": 15}, "canvas must be even"),
        (class_activation, {"noise": -1.0}, "noise must"),
        (class_activation, {"steps": 0}, "steps must"),
        (fourier_mask, {"penalty": 0.0}, "penalty must be a number > 0"),
        (fourier_mask, {"power": 0.5}, "power must be at least 1"),
        (first_filters, {"width": 2}, "width must be a whole number >= 6"),
        (first_filters, {"start": 0.0}, "start must"),
        (texture_shape, {"n_train": 4}, "n_train must"),
        (texture_shape, {"remedy": "none"}, "remedy must be one of random, agreeing"),
        (wavelets_trees, {"leaves": (5, 10)}, "leaves must be 1 or more increasing numbers >= 10"),
        (wavelets_trees, {"basis": "db4"}, "basis must be one of haar, random"),
    ],
)
def test_looking_refuses(run, wrong, said):
    with pytest.raises(SettingError, match=said):
        run(**wrong)


@pytest.mark.parametrize(
    ("run", "plots", "small"),
    [
        (class_activation, class_activation_plots, SMALL_MAP | {"steps": 5}),
        (fourier_mask, fourier_mask_plots, {"steps": 5}),
        (first_filters, first_filters_plots, SMALL_FILTERS | {"steps": 5}),
        (texture_shape, texture_shape_plots, {"n_train": 40, "steps": 5}),
        (wavelets_trees, wavelets_trees_plots, SMALL_TREES),
    ],
)
def test_looking_plots(run, plots, small):
    drawn = plots(run(**small))
    assert 1 <= len(drawn) <= 3
    assert all(plot.figure.data and plot.text for plot in drawn)
    assert any(getattr(t, "line", None) and t.line.dash for p in drawn for t in p.figure.data)
