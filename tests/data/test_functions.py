"""The functions to sample: values by hand, the Bateman equations against the solver."""

import numpy as np
import pytest
import torch
from torch.func import jacrev, vmap

from datassay.data.synthetic.functions import bateman, bateman_system, function_problem
from datassay.errors import DataError, SettingError


def solved(x, speed, sigma, removal):
    coefficients = {"sigma": np.array([1.0 * sigma]), "removal": np.array([[1.0 * removal]])}
    return bateman_system(x, speed=speed, **coefficients)


def starts(n=30, seed=0):
    return np.random.default_rng(seed).uniform(size=(n, 3)) * [1, 1, 10]


def test_runge_and_tanh_as_printed():
    x = np.array([[0.0], [0.5], [0.7]])
    for name, truth in (("runge", [1 / 7.25, 1, 0.5]), ("tanh", 1 + np.tanh([-5, 0, 2]))):
        problem = function_problem(name)
        np.testing.assert_allclose(torch.as_tensor(problem.function(x)).numpy(), truth)
        np.testing.assert_array_equal(problem.domain, [[0, 1]])


@pytest.mark.parametrize(
    ("speed", "sigma", "removal"),
    [(1, 0.45, -1), (1, -1, -1), (0.5, 1, -2), (2, -0.3, -1), (0.1, 0.2, 0.1)],
)
def test_the_closed_form_solves_the_equations(speed, sigma, removal):
    x = starts()
    exact = bateman(torch.tensor(x), speed=speed, sigma=sigma, removal=removal)
    np.testing.assert_allclose(
        exact.numpy(), solved(x, speed, sigma, removal), rtol=1e-7, atol=1e-10
    )


@pytest.mark.parametrize(
    ("x", "how"),
    [
        ([0.45, 1.0, 7.0], {"sigma": -0.45, "removal": -1.0}),  # c = 0: u and η in balance
        ([0.45 + 1e-9, 1.0, 7.0], {"sigma": -0.45, "removal": -1.0}),
        ([0.0, 0.0, 3.0], {}),
        ([0.0, 0.5, 3.0], {}),
        ([0.5, 0.0, 3.0], {}),
        ([0.5, 0.5, 0.0], {}),
        ([0.5, 0.5, 3.0], {"speed": 0.0}),
        ([0.5, 0.5, 3.0], {"sigma": 0.0}),
        ([0.5, 0.5, 3.0], {"removal": 0.0}),
        ([0.5, 0.5, 3.0], {"sigma": 0.0, "removal": 0.0}),
    ],
)
def test_no_limit_is_nought_over_nought(x, how):
    settings = {"speed": 1.0, "sigma": 0.45, "removal": -1.0} | how
    point = torch.tensor([x], dtype=torch.float64)
    result = bateman(point, **settings)
    truth = solved(np.array([x]), *settings.values())
    np.testing.assert_allclose(result.numpy(), truth, rtol=1e-8, atol=1e-12)
    slope = jacrev(lambda row: bateman(row[None], **settings)[0])(point[0])
    assert bool(slope.isfinite().all())


def test_derivatives_have_no_seam_where_the_series_ends():
    """|c t| just below and above 0.1, where (eᶻ − 1)/z changes its form."""
    settings = {"sigma": 0.0, "removal": -1.0}
    x = torch.tensor([[0.1 - 1e-9, 0.5, 1.0], [0.1 + 1e-9, 0.5, 1.0]], dtype=torch.float64)

    def row(point):
        return bateman(point[None], **settings)[0]

    below, above = vmap(jacrev(jacrev(row)))(x)
    np.testing.assert_allclose(below.numpy(), above.numpy(), rtol=1e-7, atol=1e-7)


def test_several_materials_reduce_to_one():
    problem = function_problem("bateman:2")
    assert problem.domain.shape == (4, 2)
    x = np.array([[0.3, 0.4, 0.0, 5.0], [0.3, 0.0, 0.0, 5.0]])
    y = problem.function(x)
    assert y.shape == (2, 3)
    assert y[0, 2] > 0  # the first burns up into the second
    np.testing.assert_allclose(y[1], [0.3, 0, 0], atol=1e-12)
    one = function_problem("bateman:1").function(starts())
    np.testing.assert_allclose(one, bateman(starts()).numpy(), atol=1e-9)


def test_bad_names_and_points():
    for name in ("unknown", "bateman:0", "bateman:x"):
        with pytest.raises(SettingError, match="the function must be runge"):
            function_problem(name)
    with pytest.raises(DataError, match=r"x must be \[n, 4\]"):
        function_problem("bateman:2").function(starts())
    with pytest.raises(DataError, match="could not be solved"):
        solved(np.array([[1.0, 1.0, 10.0]]), 1.0, 1.0, 1.0)
