"""Labels as a network's outputs have them, and a word where the network does not know them."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

import datassay as da
from datassay.errors import DataError
from datassay.progress import silent
from datassay.score.influence.given import given_sets, warn_if_labels_mismatch
from datassay.score.influence.trained_network import trained_network

N, ERRORS = 300, 20


@pytest.fixture(scope="module")
def digits():
    """A ten-class network, its training samples, and those of others that it gets wrong."""
    x, y = load_digits(return_X_y=True)
    x = x.reshape(-1, 4, 2, 4, 2).mean((2, 4)).reshape(-1, 16)  # 4 x 4 pixels
    x, y = torch.tensor(x / 16).double(), torch.tensor(y)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 10)).double()
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(120):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[:N]), y[:N]).backward()
        optimizer.step()
    wrong = np.flatnonzero((net(x[N:]).argmax(1) != y[N:]).numpy())[:ERRORS] + N
    return net, x, y, wrong


def asked(net, train, queries, **given):
    plain = {"damping": 1.0, "measure": "loss", "precision": "float64"}
    return da.influence(net, train, queries, **plain, **given)


def test_twenty_errors_that_lack_classes(digits):
    """As arrays, Subset, pairs and loader, beside arrays and loaders: one answer."""
    net, x, y, wrong = digits
    assert len(set(y[wrong].tolist())) < 10
    whole = TensorDataset(x, y)
    train, part = Subset(whole, range(N)), Subset(whole, wrong.tolist())
    truth = asked(net, DataLoader(train, 32), DataLoader(part, 7)).effect
    arrays, shuffled = (x[wrong].numpy(), y[wrong].numpy()), DataLoader(train, 64, shuffle=True)
    for samples, queries in (
        (train, part), (train, arrays), (shuffled, arrays), (shuffled, list(part)),
        ((x[:N], y[:N]), list(part)), ((x[:N], y[:N]), part),
    ):  # fmt: skip
        np.testing.assert_allclose(asked(net, samples, queries).effect, truth, rtol=1e-9)


def test_scores_of_networks_with_more_outputs_than_classes(digits):
    net, x, y, _ = digits
    chosen = (y[:N] % 3 == 0).numpy()
    some, labels = x[:N][chosen].numpy(), y[:N][chosen].numpy()
    named = da.SampleSet(some, labels, np.arange(len(some)), tuple(map(str, range(10))))
    for score in (da.influence_moments, da.removal_effects):
        result, truth = score(net, (some, labels)), score(net, named)
        for name in result.__dataclass_fields__:
            one, other = getattr(result, name), getattr(truth, name)
            if isinstance(one, float | np.ndarray) and np.asarray(one).dtype.kind == "f":
                np.testing.assert_array_equal(one, other)
    lin = da.collect(net, (some, labels), allow_trained=True)
    assert lin.class_names == named.class_names
    np.testing.assert_array_equal(lin.targets.argmax(1), labels)
    issues = da.label_issues(lin)
    assert np.isfinite(issues.score).all() and set(issues.suggested_label) <= set(labels.tolist())


def test_a_network_that_does_not_know_its_labels_is_told(digits):
    net, x, y, wrong = digits
    x, y, queries = x[:N].numpy(), y[:N].numpy(), (x[wrong].numpy(), y[wrong].numpy())

    def told(x, y):
        return any("no more than by chance" in w for w in asked(net, (x, y), queries).warnings)

    assert not told(x, y)
    assert told(x, (y + 1) % 10) and told(x, np.roll(y, 1)) and told(1 - x, y)
    loader = DataLoader(TensorDataset(torch.tensor(x), torch.tensor((y + 1) % 10)), 32)
    assert any("by chance" in w for w in asked(net, loader, queries).warnings)


def test_what_stands_beside_a_loader_is_prepared_and_numbered_by_nobody():
    torch.manual_seed(0)
    net = nn.Linear(3, 2).double()
    train = DataLoader(TensorDataset(torch.randn(20, 3).double(), torch.arange(20) % 2), 5)
    frame = pd.DataFrame({"colour": ["red", "blue"] * 4, "size": range(8), "y": [0, 1] * 4})
    with pytest.raises(DataError, match="must be prepared as the training samples were"):
        asked(net, train, frame)
    threes, _ = da.load((np.eye(2, 3), np.array([3, 4])), val_fraction=0)
    with pytest.raises(DataError, match="which of the network's 2 outputs a class is"):
        asked(net, train, threes)
    numbers = pd.DataFrame({"a": [1.0, 2], "b": [0.5, 1], "c": [2.0, 1], "y": [0, 1]})
    assert asked(net, train, numbers).effect.shape == (20, 2)


def test_classes_are_numbered_for_outputs_of_classes_alone():
    x, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 3
    torch.manual_seed(0)
    net, places = nn.Linear(3, 2).double(), nn.Sequential(nn.Linear(3, 8), nn.Unflatten(1, (4, 2)))
    own = lambda model, batch: (model(batch[0]).flatten(1)[:, 0] - batch[1]) ** 2  # noqa: E731
    for model in (net, places.double()):
        named = da.SampleSet(x, y, np.arange(20), ("1", "2", "3"), label_type="integer")
        result, numbers = (asked(model, s, s, loss=own) for s in (named, (x, y)))
        np.testing.assert_array_equal(result.effect, numbers.effect)


def test_asking_the_network_holds_no_stream(digits):
    net, x, y, _ = digits

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(zip(x[:N], (y[:N] + 1) % 10, strict=True))

    given, _ = given_sets(net, Stream(), None, "auto")
    network = trained_network(
        net, given, loss="auto", parameters=None, precision="float64", device=None, progress=silent
    )
    (reported,) = warn_if_labels_mismatch(network)
    assert "no more than by chance" in reported and given._held is None
