"""Brittleness: removals that turn a prediction, against training again without them."""

import gc
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.collect.gradients.batches import Batches
from datassay.errors import SettingError
from datassay.score.index import brittleness

PENALTY = 0.01


def fitted(x, y, outputs):
    """Logistic regression to convergence."""
    torch.manual_seed(0)
    model = nn.Linear(x.shape[1], outputs)
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        found = model(inputs)
        of = nn.functional.cross_entropy(found, labels) if outputs > 1 else (
            nn.functional.binary_cross_entropy_with_logits(found[:, 0], labels.float())
        )  # fmt: skip
        of = of + PENALTY / 2 * sum(p.square().sum() for p in model.parameters())
        of.backward()
        return of

    optimizer.step(loss)
    return model


@pytest.mark.parametrize("outputs", [1, 3])
def test_retraining_without_the_samples_turns_the_prediction_and_without_fewer_does_not(outputs):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(90, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5) * (outputs > 1)
    new = (draw.normal(size=(6, 4)).astype(np.float32) * 0.7, y[:6])
    model = fitted(x, y, outputs)
    ix = da.index(model, (x, y), weight_decay=PENALTY, bytes_per_sample=2**20)

    def classes(kept):
        with torch.no_grad():
            f = fitted(x[kept], y[kept], outputs)(torch.from_numpy(new[0]))
        return (f[:, 0] > 0).long().numpy() if outputs == 1 else f.argmax(1).numpy()

    everything = np.arange(90)
    model.train()
    found = ix.brittleness(new, retrain=lambda kept: fitted(x[kept], y[kept], outputs))
    assert model.training and found.is_retrained and (found.predicted == classes(everything)).all()
    assert (found.size > 0).sum() >= 4
    for query, removed in enumerate(found.removed):
        assert len(removed) == found.size[query]
        if len(removed):
            turned = classes(np.delete(everything, removed))[query]
            assert turned != found.predicted[query]
        if len(removed) > 1:
            assert classes(np.delete(everything, removed[:-1]))[query] == found.predicted[query]
    added = ix.brittleness(new)
    told = (added.size > 0) & (found.size > 0)
    assert (added.size[told] >= found.size[told]).all() and not added.is_retrained
    assert np.corrcoef(found.margin, np.where(found.size, found.size, 45))[0, 1] > 0.5
    assert found.to_table().column_names == ["query", "predicted", "becomes", "margin", "size"]


def test_an_index_without_a_location_goes_with_its_folder_and_asks_are_limited(monkeypatch):
    x = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    y = np.arange(30) % 3
    ix = da.index(fitted(x, y, 3), (x, y))
    folder = Path(ix.location)
    assert folder.is_dir()
    with pytest.raises(SettingError, match="most must be a share"):
        ix.brittleness((x[:2], y[:2]), most=1.0)
    monkeypatch.setattr(brittleness, "LARGEST_MATRIX", 100)
    with pytest.raises(SettingError, match="Ask for fewer queries"):
        ix.brittleness((x[:2], y[:2]))
    of_numbers = da.index(fitted(x, y, 1), (x, x[:, 0]))
    with pytest.raises(SettingError, match="got one by mse"):
        of_numbers.brittleness((x[:2], x[:2, 0]))
    del ix
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
def test_the_set_is_the_smallest_that_added_effects_turn_the_prediction_by(k, share):
    """Of each other output the samples that support it least are added up one by one."""
    rng = np.random.default_rng(k)
    for scale in (0.02, 0.1, 0.5):
        outputs, effect = rng.normal(size=(5, k)), scale * rng.normal(size=(12, 5 * k))
        outputs[0], effect[0] = 0, 0
        found = brittleness.brittleness(
            effect, outputs, object.__new__(Batches), share, None, lambda *_: None
        )
        of_two = k == 1
        each = effect.reshape(12, 5, k)
        values = np.concatenate([0 * outputs, outputs], 1) if of_two else outputs
        each = np.concatenate([0 * each, each], 2) if of_two else each
        limit = max(1, int(share * 12))
        for query, row in enumerate(values):
            label = int(row.argmax())
            sizes = {}
            for other in sorted(set(range(len(row))) - {label}, key=lambda c, row=row: -row[c]):
                support = np.sort(each[:, query, label] - each[:, query, other])[::-1]
                turned = [s for s in range(1, limit + 1)
                          if support[:s].sum() > row[label] - row[other]]  # fmt: skip
                sizes[other] = min(turned, default=limit + 1)
            becomes = min(sizes, key=sizes.get)  # of as many samples the nearest
            size = sizes[becomes] if sizes[becomes] <= limit else 0
            assert (found.predicted[query], found.becomes[query]) == (label, becomes)
            assert found.size[query] == size == len(found.removed[query])
            assert found.margin[query] == pytest.approx(row[label] - row[becomes])
            support = each[:, query, label] - each[:, query, becomes]
            assert set(found.removed[query]) == set(np.argsort(-support)[:size])


@pytest.mark.parametrize("limit", [1, 2, 7, 40, 300])
def test_retraining_settles_the_number_to_one_in_twenty(limit):
    order, asked = np.arange(limit), []
    for turns in {1, 2, limit // 3 + 1, limit // 2 + 1, limit, limit + 1}:
        for needed in {1, 2, limit // 2 + 1, limit, limit + 1}:
            asked.clear()
            found = brittleness._count_needed(
                needed, order, lambda gone, t=turns: (asked.append(len(gone)), len(gone) >= t)[1]
            )
            if turns > limit:
                assert found == limit + 1
            else:
                assert turns <= found <= max(turns, 1.06 * turns) and len(asked) < 20
                assert found in asked and len(asked) == len(set(asked))
