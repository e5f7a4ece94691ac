"""Cross-fitting against its definition, one model and one sample at a time."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from datassay.collect.curvature.output_geometry import SharedFeatures, output_geometry
from datassay.data.samples import SampleSet
from datassay.data.synthetic.mixtures import sd_mixture
from datassay.methods.purify import cross_fit as module
from datassay.methods.purify import loop
from datassay.methods.purify.cross_fit import cross_fit
from datassay.methods.purify.loop import purify
from datassay.models.build import build_model
from datassay.models.networks import linear
from datassay.train.convex import fit_convex
from datassay.train.folds import fold_numbers


def clouds(n, n_classes, wrong, seed):
    """Clouds around the corners of a simplex; a share of the labels is the next class."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % n_classes
    x = 1.5 * np.eye(n_classes, 6)[truth] + 0.6 * rng.normal(size=(n, 6))
    y = np.where(rng.random(n) < wrong, (truth + 1) % n_classes, truth)
    return SampleSet(x, y, np.arange(n), tuple("abc"[:n_classes]))


def parts_of(samples, n_outputs):
    geometry = output_geometry(linear((samples.x.shape[1],), n_outputs).double(), samples)
    return geometry, fold_numbers(geometry.targets, "cross_entropy", 4, 0)


def probabilities(outputs):
    """[..., K], by the logistic function itself."""
    if outputs.shape[-1] == 1:
        p = 1 / (1 + torch.exp(-outputs))
        return torch.cat([1 - p, p], -1)
    return torch.exp(outputs) / torch.exp(outputs).sum(-1, keepdim=True)


def without_one(geometry, theta, kept, i, ridge):
    """Class probabilities of sample i, one Newton step from θ on the kept samples but for i."""
    if i not in kept:
        return probabilities(geometry.features.rows(slice(i, i + 1))[0] @ theta)
    every, k = geometry.features.rows(slice(None)), geometry.targets.shape[1]
    p = probabilities(every @ theta)[:, -k:]
    inner = torch.diag_embed(p) - p[:, :, None] * p[:, None]  # for one output p (1 − p)
    others = torch.tensor([j for j in kept if j != i])
    rows = every[others]
    hessian = torch.einsum("nap,nab,nbq->pq", rows, inner[others], rows) / len(kept)
    hessian = hessian + ridge * torch.eye(len(theta))
    # At the minimum the slopes of all, ridge included, cancel: the others' is minus that of i.
    step = torch.linalg.solve(hessian, every[i].T @ (p - geometry.targets)[i] / len(kept))
    return probabilities(every[i] @ (theta + step))


def searched(geometry, seen, labels, n_classes, whole=()):
    """One search among the samples that are seen, step by step; what it keeps, and each fit."""
    n, all_seen = len(labels), sorted(seen)

    def best(kept, ridges, theta):
        found = None
        for ridge in ridges:
            part = geometry.subset(torch.tensor(kept))
            theta = fit_convex(
                part.features, part.targets, "cross_entropy", ridge, start=theta, max_steps=2
            ).weights
            p = torch.stack([without_one(geometry, theta[0], kept, i, ridge) for i in range(n)])
            loss = -np.mean([math.log(p[i, labels[i]]) for i in kept])
            if found is None or loss < found[0]:
                found = loss, ridge, p, theta
        return found

    kept, ridges = all_seen, [10.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4]
    # A part takes the penalties of the whole, and at first its weights.
    path = [best(kept, [whole[0][1]] if whole else ridges, whole[0][3] if whole else None)]
    for step in range(6):
        new = [i for i in all_seen if path[-1][2][i, labels[i]] >= 1 / (2 * n_classes)]
        if 2 * len(new) <= len(seen) or (step == 0 and len(seen) - len(new) < 0.02 * len(seen)):
            break
        changed, kept = len(set(new) ^ set(kept)), new
        if changed <= 0.005 * len(seen):
            break
        at = ridges.index(path[-1][1])
        two = [whole[min(step + 1, len(whole) - 1)][1]] if whole else ridges[at : at + 2]
        path.append(best(kept, two, path[-1][3]))
    if len(seen) - len(kept) < 0.02 * len(seen):
        return all_seen, path[:1]
    return kept, path


@pytest.mark.parametrize("least", [99.0, 0.1, -math.inf])
@pytest.mark.parametrize(("n_classes", "n_outputs"), [(2, 1), (3, 3)])
def test_it_is_its_definition(n_classes, n_outputs, least, monkeypatch):
    n = 32
    samples = clouds(n, n_classes, 0.2, 3)
    geometry, folds = parts_of(samples, n_outputs)
    kept, path = searched(geometry, set(range(n)), samples.y, n_classes)
    change = np.full(n, np.nan)
    for fold in range(4):
        seen = {i for i in range(n) if folds[i] != fold}
        fits = searched(geometry, seen, samples.y, n_classes, path)[1]
        held = torch.nonzero(folds == fold)[:, 0]
        before, after = (fits[i][2][held].argmax(1).numpy() == samples.y[held] for i in (0, -1))
        change[held] = after.astype(float) - before
        judged = change[~np.isnan(change)]
        gain, error = float(judged.mean()), float(judged.std(ddof=1)) / len(judged) ** 0.5
        if fold and not 0 < gain <= 3 * error:  # half of the parts are enough
            break
    assert 0 < n - len(kept) < n / 2
    # Where too little is gained nothing goes; a rule that asks for less leaves them out.
    keep, fit = (range(n), path[0]) if gain <= least * error else (kept, path[-1])
    monkeypatch.setattr(module, "LEAST_ERRORS", least)
    result = cross_fit(geometry, folds)
    assert result.gain == pytest.approx(gain)
    assert result.error == pytest.approx(error)
    assert set(np.flatnonzero(~result.is_foreign)) == set(keep)
    assert result.ridge == fit[1]
    own = fit[2][torch.arange(n), torch.as_tensor(samples.y)]
    np.testing.assert_allclose(result.surprise, -own.log(), rtol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "seed", "errors", "n_parts"),
    [((280, 40), 3, 1.96, 10), ((230, 40), 0, 2.80, 10), ((230, 40), 5, 3.54, 5)],
)
def test_two_errors_are_enough_and_of_half_of_the_parts_three(sizes, seed, errors, n_parts):
    parts_done = []
    geometry, _ = parts_of(sd_mixture(sizes, seed=seed), 4)
    folds = fold_numbers(geometry.targets, "cross_entropy", 10, 0)
    found = cross_fit(geometry, folds, progress=lambda _, done, total: parts_done.append(done))
    assert found.gain / found.error == pytest.approx(errors, abs=0.01)
    assert found.is_foreign.any() == (errors > 2) and max(parts_done) == n_parts


def test_left_out_is_nearly_retrained_without():
    samples = clouds(60, 3, 0.2, 1)
    geometry, folds = parts_of(samples, 3)
    surprise = cross_fit(geometry, folds, ridge=0.1).surprise
    weight = 1 - torch.eye(60).double()
    fits = fit_convex(
        geometry.features, geometry.targets, "cross_entropy", 0.1, sample_weight=weight
    )
    p = geometry.features.outputs(fits.weights).log_softmax(-1)
    i = torch.arange(60)
    np.testing.assert_allclose(surprise, -p[i, i, torch.as_tensor(samples.y)], rtol=0.05, atol=0.05)


def test_inputs_and_ridge_in_another_unit():
    geometry, folds = parts_of(clouds(60, 3, 0.3, 2), 3)
    scaled = SharedFeatures(10 * geometry.features.x, 3)
    before = cross_fit(geometry, folds, ridge=0.01)
    after = cross_fit(replace(geometry, features=scaled), folds, ridge=1.0)
    np.testing.assert_allclose(after.surprise, before.surprise, rtol=1e-6)
    assert (after.is_foreign == before.is_foreign).all() and after.gain == before.gain


def test_mixtures_lose_the_minority_and_a_pure_set_nothing():
    mixed = sd_mixture((320, 80), seed=0)
    found = purify(linear((40,), 4), mixed)
    assert (found.order, found.rule) == ("cross_fit", "suspects")
    assert found.cross_fit.gain > 2 * found.cross_fit.error
    assert (mixed.source[found.removed] != "function 1").mean() > 0.8
    assert len(found.removed) == found.cross_fit.is_foreign.sum() > 50
    assert found.ridge == found.cross_fit.ridge
    kept = purify(linear((40,), 4), sd_mixture((400,), seed=3))
    assert not len(kept.removed) and kept.steps == 0 and np.isnan(kept.cross_fit.gain)


@pytest.mark.parametrize("wrong", [0.2, 0.4])
def test_labels_wrong_at_random_stay_where_a_ridge_bears_them(wrong):
    x, y = load_digits(return_X_y=True)
    some = np.flatnonzero((y == 4) | (y == 8))[:240]
    rng = np.random.default_rng(1)
    y = np.where(rng.random(240) < wrong, rng.integers(0, 2, 240), y[some] // 8)
    samples = SampleSet(x[some], y, np.arange(240), ("4", "8"))
    found = purify(build_model("logistic", samples), samples)
    assert not len(found.removed) and found.ridge >= 0.1


def test_the_order_of_the_samples_is_of_no_matter(monkeypatch):
    monkeypatch.setattr(module, "LEAST_ERRORS", -math.inf)  # whatever it gains
    mixed, order = clouds(90, 3, 0.2, 2), np.random.default_rng(1).permutation(90)
    results = [purify(linear((6,), 3), one) for one in (mixed, mixed.subset(order))]
    assert len(results[0].removed) and not math.isnan(results[0].cross_fit.gain)
    assert results[0].cross_fit.gain == results[1].cross_fit.gain
    assert set(results[0].ids[results[0].removed]) == set(results[1].ids[results[1].removed])


def test_many_weights_are_fitted_in_leading_directions(monkeypatch):
    samples = clouds(60, 3, 0.3, 2)
    geometry, folds = parts_of(samples, 3)
    x = torch.cat([geometry.features.x, 1e-9 * torch.randn(60, 50).double()], 1)
    wide = replace(geometry, features=SharedFeatures(x, 3))
    monkeypatch.setattr(module, "MOST_WEIGHTS", 3 * 7)
    before, after = (cross_fit(one, folds, ridge=0.01).surprise for one in (geometry, wide))
    np.testing.assert_allclose(after, before, rtol=1e-5)


def test_a_search_that_would_leave_less_than_half_keeps_all():
    x = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]] * 6) * np.linspace(1, 2, 24)[:, None]
    samples = SampleSet(x, (x[:, 0] * x[:, 1] > 0).astype(int), np.arange(24), ("a", "b"))
    geometry, folds = parts_of(samples, 1)
    result = cross_fit(geometry, folds, ridge=1e-4)
    assert (result.surprise > math.log(2)).any() and not result.is_foreign.any()


def test_no_group_is_in_two_tenths_whatever_the_order_of_the_ids(monkeypatch):
    samples, seen = clouds(120, 3, 0.1, 0), []
    ids = np.random.default_rng(0).permutation(120)
    samples = replace(samples, ids=ids, groups=(ids % 30).astype(str))

    def note(geometry, folds, **options):
        seen.append(folds.numpy())
        return cross_fit(geometry, folds, **options)

    monkeypatch.setattr(loop, "cross_fit", note)
    for order in (np.arange(120), np.argsort(ids)):
        purify(build_model("logistic", samples), samples.subset(order))
        folds, groups = seen[-1], samples.groups[order]
        assert all(len(set(folds[groups == g])) == 1 for g in set(groups))
    np.testing.assert_array_equal(seen[0][np.argsort(ids)], seen[1])
