"""Effects of a sample's places: by autograd, and together its effect, in every method."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.collect.gradients.batches import LOSS_WEIGHT
from datassay.collect.gradients.criteria import objective
from datassay.collect.gradients.reading import batches
from datassay.lm.positions import position_effects
from datassay.score.influence.gradient_methods import attribute, prepare
from datassay.score.influence.methods import prepare_request
from datassay.score.influence.request import Request

N, M, PLACES, K = 10, 3, 4, 3


class Tagger(nn.Module):
    """A class for each position, from this one and the mean of all."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(6, 4), nn.Linear(4, K)
        self.scale = nn.Parameter(torch.ones(4))  # of no layer

    def forward(self, input_ids):
        states = self.table(input_ids)
        return self.head(torch.tanh(states + self.scale * states.mean(1, keepdim=True)))


def samples(n, seed):
    generator = torch.Generator().manual_seed(seed)
    results = []
    for i in range(n):
        ids, labels = (torch.randint(0, k, (PLACES,), generator=generator) for k in (6, K))
        labels[0] = -100 if i % 2 else labels[0]
        weight = torch.tensor(1 + i / n, dtype=torch.float64)
        results.append({"input_ids": ids, "labels": labels, LOSS_WEIGHT: weight})
    return results


def model(seed=0):
    torch.manual_seed(seed)
    return Tagger().double()


def fitted(models, checkpoints=None, **wanted):
    settings = {"method": "auto", "curvature": "auto", "settings": {}, "temperature": 2.0} | wanted
    request = Request(
        models=models, response="first_order", loss="cross_entropy", measure="loss",
        damping="auto", weight_decay=0.0, parameters=None, removed=None, top=None,
        precision="float64", device=None, seed=0, progress=lambda *_: None, **settings,
    )  # fmt: skip
    return prepare(prepare_request(request, checkpoints), samples(N, 1))


def both(each, name, *, adds=False):
    """Effects of the samples, and of their places."""
    queries = batches(samples(M, 2), 2)
    result = attribute(each, queries, np.arange(N), method=name, top=None, own_idx=None, adds=adds)
    return result.effect, position_effects(each, queries, batches(samples(N, 1), 3), adds=adds)


CASES = {
    "exact blocks": {},
    "factored blocks": {"curvature": "ekfac"},
    "two networks": {"models": 2},
    "checkpoints": {"method": "tracin", "models": 2, "settings": {"lr": [0.1, 0.3]}},
    "a run": {"method": "segments", "models": 2, "settings": {"lr": 0.1, "steps": [3, 8]}},
}


@pytest.mark.parametrize("case", CASES)
def test_places_add_up_to_their_sample(case):
    settings = dict(CASES[case])
    models = [model(seed) for seed in range(settings.pop("models", 1))]
    adds = "method" in settings
    checkpoints = [copy.deepcopy(m) for m in models] if adds else None
    result = fitted(models[-1:] if adds else models, checkpoints, **settings)
    whole, parts = both(*result, adds=adds)
    for effect, positions in zip(whole, parts, strict=True):
        assert positions.shape == (PLACES, M)
        np.testing.assert_allclose(positions.sum(0), effect, rtol=1e-8, atol=1e-10)
    assert not parts[1][0].any()  # its label does not count


def test_a_place_is_the_product_of_its_loss_gradient():
    net = model()
    each, name = fitted([net], method="tracin", temperature=1.0)
    weights = list(net.parameters())

    def gradient(sample, indices):
        logits = net(sample["input_ids"][None])[0]
        losses = nn.functional.cross_entropy(logits, sample["labels"], reduction="none")
        value = losses[indices].sum() * sample[LOSS_WEIGHT]
        return torch.cat([g.flatten() for g in torch.autograd.grad(value, weights)])

    wanted = [gradient(sample, slice(None)) for sample in samples(M, 2)]
    _, parts = both(each, name, adds=True)
    for sample, positions in zip(samples(N, 1), parts, strict=True):
        for t in range(PLACES):
            own = gradient(sample, slice(t, t + 1))
            truth = [-float(own @ towards) for towards in wanted]
            np.testing.assert_allclose(positions[t], truth, rtol=1e-9, atol=1e-12)


def test_a_loss_of_the_users_own_has_no_places():
    def loss(net, batch):
        return net(batch["input_ids"]).square().sum((1, 2))

    network = da.influence(model(), samples(N, 1), samples(M, 2), loss=loss, measure="loss")
    assert network.effect.shape == (N, M)
    with pytest.raises(da.DatassayError, match="a loss of your own has no positions"):
        objective(loss, model(), {}).at_places(model(), {})


def test_weights_of_samples_are_those_of_their_losses():
    """Weights 2 are the samples twice, as far as their curvature and gradients go."""
    once = samples(N, 1)
    for one in once:
        one[LOSS_WEIGHT] = torch.tensor(2.0, dtype=torch.float64)
    plain = [{k: v for k, v in one.items() if k != LOSS_WEIGHT} for one in once]
    queries = [{k: v for k, v in q.items() if k != LOSS_WEIGHT} for q in samples(M, 2)]
    net = model()
    settings = {"loss": "cross_entropy", "measure": "loss", "precision": "float64", "damping": 0.1}
    heavy, light = (da.influence(net, part, queries, **settings) for part in (once, plain))
    np.testing.assert_allclose(heavy.effect, light.effect, rtol=1e-9)
    steps = [
        da.influence(net, part, queries, loss="cross_entropy", measure="loss", method="tracin")
        for part in (once, plain)
    ]
    np.testing.assert_allclose(steps[0].effect, 2 * steps[1].effect, rtol=1e-5)
