"""Attribution of the linearised network against its definition, and one pass for all removals."""

from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datassay.errors import SettingError
from datassay.score.attribution import attribution, removal_scores
from datassay.score.leave_one_out import leave_one_out
from helpers.linearizations import (
    close,
    linearization,
    random_jacobians,
    random_linearization,
    weights,
)

RUN = {"lr": 0.02, "steps": 50, "weight_decay": 0.3}
SHAPES = {"binary": (14, 1, 1), "joint": (12, 3, 1), "averaged": (14, 1, 4)}


def brute_force(phi, r, val_phi):
    """Outputs on the queries with all samples [m, k] and without each one [n, m, k]."""
    n, b, c = r.shape

    def outputs(keep):
        trained = weights(phi[keep].flatten(0, 1), r[keep].flatten(0, 1), "flow", 0.02, 50, 0.3)
        return (val_phi.flatten(0, 1) @ trained).reshape(len(val_phi), b * c)

    everything = torch.arange(n)
    return outputs(everything), torch.stack([outputs(everything != i) for i in range(n)])


@pytest.mark.parametrize(("dual", "p"), [(True, 60), (False, 9)], ids=["dual", "primal"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_effect_on_an_output_is_that_of_deleting_the_sample(shape, dual, p):
    n, b, c = SHAPES[shape]
    phi, r, val = random_jacobians(n, b, c, p, 7, seed=4)
    full, without = brute_force(phi, r, val)
    predicted = full.argmax(1)
    expected = (full - without)[:, torch.arange(7), predicted]
    labels = np.zeros(n, dtype=np.int64)
    scores = removal_scores(linearization(phi, r, val, dual=dual, labels=labels), **RUN)
    assert close(scores.attribution.effect, expected)
    assert close(scores.query_outputs, full)
    assert close(scores.attribution.total, expected.sum(1))


@pytest.mark.parametrize("values", [2**24, 2000])
def test_the_largest_effects_are_those_of_the_whole_matrix(monkeypatch, values):
    lin = random_linearization(30, 1, 1, 50, 6, seed=5)
    whole = attribution(lin, **RUN)
    monkeypatch.setattr(import_module("datassay.score.attribution"), "CHUNK_VALUES", values)
    few = attribution(lin, top=4, **RUN)
    assert few.effect is None and few.to_table().num_rows == 6 * 2 * 4
    assert np.array_equal(few.top.raising, np.argsort(-whole.effect, axis=0)[:4].T)
    assert np.array_equal(few.top.lowering, np.argsort(whole.effect, axis=0)[:4].T)
    assert close(few.top.raising_effect, -np.sort(-whole.effect, axis=0)[:4].T)


@pytest.mark.parametrize("with_queries", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_pass_serves_both(monkeypatch, shape, with_queries):
    n, b, c = SHAPES[shape]
    phi, r, val = random_jacobians(n, b, c, 40, 90, seed=6)
    labels = np.zeros(n, dtype=np.int64)
    lin = linearization(phi, r, val if with_queries else None, dual=True, labels=labels)
    alone, passes = leave_one_out(lin, **RUN), []
    reader = import_module("datassay.score.leave_one_out")
    real = reader.removals
    monkeypatch.setattr(reader, "removals", lambda *a: passes.append(a) or real(*a))
    both = removal_scores(lin, measure="output", **RUN)
    assert len(passes) == 1
    for name in ("held_out", "outputs", "prediction_change", "weight_change"):
        assert close(getattr(both.leave_one_out, name), getattr(alone, name))
    for name in ("run", "reduction", "n_queries", "on_training_inputs", "rank"):
        assert getattr(both.leave_one_out, name) == getattr(alone, name)
    assert np.array_equal(both.attribution.weight_change, both.leave_one_out.weight_change)


@given(u=st.floats(0.1, 10), t=st.floats(0.1, 10), seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_units(u, t, seed):
    phi, r, val = random_jacobians(10, 1, 1, 15, 4, seed)
    before = attribution(linearization(phi, r, val, dual=True), lr=0.02, steps=9)
    scaled = linearization(u * phi, t * r, u * val, dual=True)
    assert close(attribution(scaled, lr=0.02 / u**2, steps=9).effect, t * before.effect)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"measure": "logit"}, "measure must be 'output', 'margin' or 'loss'; got 'logit'"),
        ({"measure": "margin"}, "measure='margin' needs classes"),
        ({"top": 0}, "top must be at least 1, .* got 0"),
        ({"lr": -1.0}, "lr must be finite and positive"),
    ],
)
def test_bad_settings(setting, message):
    with pytest.raises(SettingError, match=message):
        removal_scores(random_linearization(6, 1, 1, 9, 3, seed=9), **setting)


def test_the_table_calls_nothing_raising_that_lowers():
    effects = attribution(random_linearization(5, 1, 1, 15, 4, seed=10), **RUN)
    table = effects.to_table()
    assert table.column_names == ["query", "direction", "rank", "id", "effect"]
    assert table.num_rows == 4 * 5  # each sample once a query, not in both lists
    for row in table.to_pylist():
        assert (row["direction"] == "raises") == (row["effect"] > 0)
        assert row["effect"] == effects.effect[row["id"], row["query"]]
