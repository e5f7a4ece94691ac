"""A loss is one file: what its module says is what a network's derivatives are made of."""

import pytest
import torch
from torch import nn
from torch.func import grad, jacrev, vmap

import datassay as da
from datassay.collect import losses as package
from datassay.collect.gradients.criteria import objective
from datassay.collect.loss import losses
from datassay.plugins import modules_in

TOY = """
import torch
from torch import nn
from datassay.collect.loss import Loss

class LogCoshLoss(nn.Module):
    reduction = "mean"

class LogCosh(Loss):
    name = "log_cosh"
    criteria = (LogCoshLoss,)
    compares = "values"

    def value(self, f, y):
        return (f - y).cosh().log().sum(-1)

    def second_derivative(self, f, y=None):
        return (f - y).cosh() ** -2

LOSS = LogCosh()
"""


@pytest.fixture
def log_cosh(tmp_path, monkeypatch):
    """The criterion of a loss that a file adds."""
    (tmp_path / "log_cosh.py").write_text(TOY)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    caches = (losses, modules_in)
    for cache in caches:
        cache.cache_clear()
    yield type(losses()["log_cosh"]).criteria[0]()
    for cache in caches:
        cache.cache_clear()


def test_a_loss_of_one_file_has_its_value_and_its_curvature(log_cosh):
    f, y = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)).double()
    loss = objective(log_cosh, nn.Identity(), (f, y))
    value = lambda f, y: (f - y).cosh().log().mean()  # noqa: E731
    torch.testing.assert_close(loss.losses(nn.Identity(), (f, y)), vmap(value)(f, y))
    roots = loss.roots(f[:, None], y[:, None], torch.Generator())
    hessian = sum(v[:, 0, :, None] * v[:, 0, None] for v in roots)
    torch.testing.assert_close(hessian, vmap(jacrev(grad(value)))(f, y))
    data = [(f, y)]
    result = da.influence(nn.Linear(3, 3), data, data, loss=log_cosh, measure="loss", damping=0.1)
    assert (result.self_influence > 0).all()
