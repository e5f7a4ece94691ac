"""Students trained as one tensor program against autograd and a loop, in float64."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from datassay.errors import SettingError
from datassay.methods.complexity import training_procedure
from datassay.methods.complexity.sample_complexity import recovery_r2
from datassay.methods.complexity.teacher_student import (
    WIDE,
    StudentRecipe,
    check_recipe,
    draw_networks,
    network_outputs,
    train_students,
)
from datassay.methods.complexity.training_procedure import Teachers, student_losses

EXACT = StudentRecipe(precision="float64", epochs=7)
SHAPES = [(2, 3, 4, 5, 6), (1, 2, 3, WIDE + 1, 5), (3, 1, 1, 1, 1)]  # C, T, d, m, n


def problem(shape, seed=0):
    n_sets, n_students, d, m, n = shape
    rng = np.random.default_rng(seed)
    start = draw_networks(rng, n_sets * n_students, d, m).reshape(n_sets, n_students, d, m)
    x, y = rng.standard_normal((n_sets, n, d)), rng.standard_normal((n_sets, n))
    return torch.as_tensor(start), torch.as_tensor(x), torch.as_tensor(y)


def f(x, w):
    """S3 eq. (2.1)."""
    return (x @ w).relu().sum(-1) / w.shape[-1] ** 0.5


def loss(w, x, y, reduction, divisor="root"):
    width = w.shape[-1]
    scale = 1.0 if divisor == "root" else width**-0.5  # eq. (2.1)'s outputs to eq. (2.7)'s
    error = (scale * y - scale * f(x, w)).square()
    return error.mean() if reduction == "mean" else error.sum()


def one_by_one(start, x, y, recipe):
    """Algorithm 1 as people write it: a student at a time, autograd, torch.optim."""
    trained = start.clone()
    kinds = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    for k, students in enumerate(trained):
        for student in students:
            w = student.clone().requires_grad_()
            optimizer = kinds[recipe.optimizer]([w], lr=recipe.lr)
            n = len(x[k])
            size, draw = min(recipe.batch_size or n, n), torch.Generator().manual_seed(0)
            for _ in range(recipe.epochs):
                order = torch.randperm(n, generator=draw)
                for b in range(n // size):
                    rows = order[b * size : (b + 1) * size]
                    optimizer.zero_grad()
                    loss(w, x[k][rows], y[k][rows], recipe.reduction, recipe.divisor).backward()
                    optimizer.step()
            student.copy_(w.detach())
    return trained


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "reading",
    [
        {"optimizer": "adam"},
        {"optimizer": "sgd", "reduction": "sum"},
        {"optimizer": "sgd", "divisor": "width", "lr": 0.5},
        {"optimizer": "sgd", "reduction": "sum", "batch_size": 1},
        {"batch_size": 2},
    ],
)
def test_batched_training_is_the_loop(shape, reading):
    start, x, y = problem(shape)
    recipe = replace(EXACT, **reading)
    before = start.clone()
    got = train_students(start, x, y, recipe)
    assert_close(start, before, rtol=0, atol=0)
    assert_close(got, one_by_one(start, x, y, recipe), rtol=1e-10, atol=1e-12)
    outputs = network_outputs(x, start)
    for k, t in np.ndindex(*shape[:2]):
        assert_close(outputs[k, t], f(x[k], start[k, t]), rtol=1e-12, atol=0)
    assert float(start.abs().max()) <= 1 / shape[2] ** 0.5


def test_losses_do_not_depend_on_chunks_or_company(monkeypatch):
    teachers = Teachers(3, 4, seed=1)
    whole = student_losses(teachers, [0, 1, 2], 6, 5, EXACT)
    alone = student_losses(teachers, [1], 6, 5, EXACT)
    np.testing.assert_allclose(alone[0], whole[1], rtol=1e-10)
    for chunk in (1, 48, 130):  # one student; two; a teacher at a time
        monkeypatch.setattr(training_procedure, "CHUNK", chunk)
        parts = student_losses(teachers, [0, 1, 2], 6, 5, EXACT)
        np.testing.assert_allclose(parts, whole, rtol=1e-10)


def test_students_of_another_width_learn_the_same_outputs():
    wide = replace(EXACT, student_width=12, epochs=400, lr=0.02)
    losses = student_losses(Teachers(2, 3), [0, 1], 200, 8, wide)
    assert losses.max() < 0.01
    narrow = student_losses(Teachers(2, 3), [0, 1], 200, 8, replace(wide, student_width=1))
    assert narrow.min() > losses.max()
    same, wider = (
        student_losses(Teachers(5, 5), range(8), 40, 10, StudentRecipe(student_width=width))
        for width in (None, 20)
    )
    assert (wider < 0.05).mean() > (same < 0.05).mean() + 0.2  # four times the units: fewer samples
    with pytest.raises(SettingError, match="divisor must be 'root' where student_width"):
        check_recipe(replace(wide, divisor="width"))
    with pytest.raises(SettingError, match="batch_size must be"):
        check_recipe(replace(EXACT, batch_size=0))


def test_a_student_that_starts_at_its_teacher_has_no_error(monkeypatch):
    teachers = Teachers(3, 4, seed=1)
    own = teachers.weights(0)
    monkeypatch.setattr(training_procedure, "draw_networks", lambda *_: own[None])
    # Plain descent: Adam turns a gradient of rounding errors into steps of lr.
    descent = replace(EXACT, optimizer="sgd")
    assert student_losses(teachers, [0], 6, 1, descent)[0, 0] < 1e-20


def test_a_student_that_says_the_mean_has_a_loss_of_one(monkeypatch):
    """S3 eq. (2.4)."""

    def mean_of_the_teacher(x, weights):
        shown = np.maximum(x.numpy()[0] @ Teachers(3, 4).weights(0), 0).sum(1) / 2
        return torch.full((1, weights.shape[1], x.shape[1]), shown.mean())

    monkeypatch.setattr(training_procedure, "network_outputs", mean_of_the_teacher)
    np.testing.assert_allclose(student_losses(Teachers(3, 4), [0], 9, 2, EXACT), 1, rtol=1e-6)


@pytest.mark.parametrize("width", [1, 12])
def test_variance_of_outputs_grows_with_the_width(width):
    """S3 eq. (2.6) takes units to be independent; by their covariances it is off by this factor."""
    d, variances = 6, []
    for name in ("outputs", "units"):
        recipe = StudentRecipe(precision="float64", variance=name, n_test=1000)
        trial = partial(training_procedure._draw_trial, Teachers(d, width), n=1, n_students=1)
        variances.append(np.mean([trial(teacher=k, recipe=recipe).variance for k in range(80)]))
    expected = 1 + (width - 1) / (4 * np.pi * d * (0.5 - 0.5 / np.pi))
    assert variances[0] / variances[1] == pytest.approx(expected, rel=0.05)


def test_units_targets_scaled_with_weights_scale_the_error_away():
    """Plain descent from scaled starts, scaled targets: weights scale with them."""
    start, x, y = problem(SHAPES[0])
    recipe = StudentRecipe(precision="float64", epochs=7, optimizer="sgd")
    scaled = train_students(3 * start, x, 3 * y, recipe)
    assert_close(scaled, 3 * train_students(start, x, y, recipe), rtol=1e-10, atol=1e-12)


def test_one_test_sample_has_no_variance_and_divergence_is_no_recovery():
    assert np.isinf(student_losses(Teachers(2, 2), [0], 1, 3, EXACT)).all()
    wild = StudentRecipe(optimizer="sgd", reduction="sum", lr=1e4)
    assert np.isinf(student_losses(Teachers(2, 2), [0], 30, 3, wild)).all()


def test_plain_descent_recovers_with_the_summed_loss_only():
    """S3's lr and epochs, d = m = 5, N = 96: eq. (2.2) averages, eq. (2.7) sums."""
    sizes = {"n_teachers": 2, "n_students": 6}
    descent = {k: StudentRecipe(optimizer="sgd", reduction=k) for k in ("mean", "sum")}
    r2 = {k: np.median(recovery_r2(5, 5, 96, recipe=r, **sizes)) for k, r in descent.items()}
    assert r2["mean"] < 0.7
    assert r2["sum"] > 0.9


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"lr": 0.0}, "lr must be positive; got 0.0"),
        ({"epochs": 0}, "epochs must be positive; got 0"),
        ({"n_test": 0}, "n_test must be positive"),
        ({"optimizer": "lion"}, "optimizer must be 'adam' or 'sgd'; got 'lion'"),
        ({"reduction": "max"}, "reduction must be 'mean' or 'sum'"),
        ({"divisor": "m"}, "divisor must be 'root' or 'width'; got 'm'"),
        ({"variance": "none"}, "variance must be 'outputs' or 'units'"),
        ({"precision": "float16"}, "precision must be 'float32' or 'float64'"),
    ],
)
def test_bad_recipes_are_named(setting, message):
    with pytest.raises(SettingError, match=message):
        check_recipe(StudentRecipe(**setting))
