"""Two cases of attribution.py: today's damped attribution of all weights at once, on digits.

1000 samples, MLP 64-32-32-10. Linear datamodelling score (Park et al. 2023): Spearman correlation,
over 100 random halves of the samples, of the margin that five networks trained on the half reach
with the sum of the half's effects; mean over 300 queries. Leave-one-out: the effects of 100 samples
against networks trained without each. Damping is chosen on other seeds than are reported.
"""

import numpy as np
import torch
from attribution_cases import lds
from record import record
from scipy.stats import pearsonr, spearmanr

from datassay.data import load
from datassay.models import build_model
from datassay.score import influence, outcome, unrolled
from datassay.train import Recipe, TrainedNetworks, retrain, train_networks

NETWORK = "mlp:width=32,depth=2"
RECIPE = Recipe("adam", 3e-3, 300, 64)
# Full-batch descent that stays smooth: at lr 0.1 and 600 steps these networks train at the edge of
# stability, two runs without the same sample part by rounding, and no derivative predicts them.
DESCENT = {"lr": 0.05, "steps": 300}
DAMPINGS = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 0.3)
N_SUBSETS, N_SEEDS, N_MODELS, N_REMOVED = 100, 5, 5, 100


def samples():
    """1000 digits and 300 queries."""
    train, queries = load("digits", val_fraction=0.4)
    rng = np.random.default_rng(0)
    train = train.subset(np.sort(rng.permutation(len(train))[:1000]))
    return train, queries.subset(np.sort(rng.permutation(len(queries))[:300]))


def trained(train, seeds, subsets, recipe, order) -> TrainedNetworks:
    models = [build_model(NETWORK, train, seed=int(s)) for s in seeds]
    return train_networks(models, train, subsets, recipe, seed=order)


def taken(networks: TrainedNetworks, train, place: int) -> torch.nn.Module:
    model = build_model(NETWORK, train, seed=0)
    model.load_state_dict({name: t[place] for name, t in networks.state.items()})
    return model


def margins(outputs: torch.Tensor, queries) -> np.ndarray:
    targets = torch.nn.functional.one_hot(torch.as_tensor(queries.y), outputs.shape[-1])
    measured = outcome(
        "margin", "cross_entropy", outputs[0], targets.double(), is_classification=True
    )
    return measured(outputs).numpy()


def datamodelling(train, queries) -> None:
    x, everything = torch.as_tensor(queries.x).float(), np.arange(len(train))
    found = {}
    for name, first in (("tuning", 10_000), ("reported", 0)):
        rng = np.random.default_rng(first)
        halves = np.stack([rng.permutation(len(train))[:500] for _ in range(N_SUBSETS)])
        truth = []
        for s in range(N_SEEDS):
            seeds = first + 1000 * (s + 1) + np.arange(N_SUBSETS)
            networks = trained(train, seeds, torch.as_tensor(halves), RECIPE, first + s)
            truth.append(margins(networks.outputs(x).double(), queries))
        whole = torch.as_tensor(np.tile(everything, (N_MODELS, 1)))
        networks = trained(train, first + np.arange(N_MODELS), whole, RECIPE, first + 77)
        models = [taken(networks, train, place) for place in range(N_MODELS)]
        found[name] = (halves, np.stack(truth), models)

    def effects(method, models, **settings):
        how = {"response": "leave_one_out"} if method == "gauss_newton" else {}
        settings = how | settings
        return influence(models, train, queries, method=method, measure="margin", **settings).effect

    halves, truth, models = found["tuning"]
    tuned = {
        d: lds(effects("gauss_newton", models[:2], damping=d), halves, truth.mean(0))
        for d in DAMPINGS
    }
    damping = max(tuned, key=tuned.get)
    halves, truth, models = found["reported"]
    mean = truth.mean(0)
    each = [effects("gauss_newton", m, damping=damping) for m in models]
    rivals = {
        "exact_hessian_damping_0.3": [effects("exact", m, damping=0.3) for m in models[:2]],
        "tracin_last_checkpoint": [effects("tracin", m, lr=1.0) for m in models[:2]],
    }
    default = [effects("auto", m) for m in models]
    # Ceiling: how well the mean of the five networks a half repeats, from one against the others.
    once = [
        np.mean([
            spearmanr(truth[s][:, j], np.delete(truth, s, 0).mean(0)[:, j])[0]
            for j in range(truth.shape[2])
        ])
        for s in range(N_SEEDS)
    ]
    record(
        "attribution/linear datamodelling score, digits",
        n=len(train),
        queries=len(queries),
        networks_trained=2 * N_SUBSETS * N_SEEDS,
        damping=damping,
        tuned={str(d): v for d, v in tuned.items()},
        lds_one_model=float(np.mean([lds(e, halves, mean) for e in each])),
        lds_one_model_lowest=float(min(lds(e, halves, mean) for e in each)),
        lds_five_models=lds(np.mean(each, 0), halves, mean),
        lds_one_model_default=float(np.mean([lds(e, halves, mean) for e in default])),
        lds_five_models_default=lds(np.mean(default, 0), halves, mean),
        one_retraining_against_the_other_four=float(np.mean(once)),
        **{
            f"lds_one_model_{name}": float(np.mean([lds(e, halves, mean) for e in few]))
            for name, few in rivals.items()
        },
    )


def correlations(effect: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Over the removed samples, mean over queries."""
    pairs = list(zip(effect.T, truth.T, strict=True))
    return {
        "spearman": float(np.mean([spearmanr(a, b)[0] for a, b in pairs])),
        "pearson": float(np.mean([pearsonr(a, b)[0] for a, b in pairs])),
    }


def leave_one_out(train, queries) -> None:
    recipe = Recipe("sgd", DESCENT["lr"], DESCENT["steps"], None)
    everything = torch.arange(len(train))[None]
    cases = {}
    for name, seed, size in (("tuning", 10_000, 40), ("reported", 0, N_REMOVED)):
        start = build_model(NETWORK, train, seed=seed)
        removed = np.random.default_rng(seed).permutation(len(train))[:size]
        truth = retrain(start, train, queries, loss="cross_entropy", removed=removed, **DESCENT)
        model = taken(train_networks([start], train, everything, recipe), train, 0)
        cases[name] = (start, model, removed, truth)
    targets = torch.nn.functional.one_hot(torch.as_tensor(queries.y), 10).double()

    def changed(truth, of):
        full = torch.as_tensor(truth.outputs)
        measured = outcome(of, "cross_entropy", full, targets, is_classification=True)
        return (measured(full) - measured(torch.as_tensor(truth.outputs_without))).numpy()

    _, model, removed, truth = cases["tuning"]
    leverage = {"measure": "output", "response": "leave_one_out"}
    tuned = {}
    for d in DAMPINGS:
        effect = influence(model, train, queries, damping=d, **leverage).effect[removed]
        tuned[d] = correlations(effect, changed(truth, "output"))["spearman"]
    damping = max(tuned, key=tuned.get)
    start, model, removed, truth = cases["reported"]
    figures = {}
    for of in ("output", "margin"):
        found = influence(model, train, queries, damping=damping, **leverage | {"measure": of})
        run = {"loss": "cross_entropy", "measure": of, "removed": removed, **DESCENT}
        differentiated = unrolled(start, train, queries, **run)
        truth_of = changed(truth, of)
        figures[f"gauss_newton_{of}"] = correlations(found.effect[removed], truth_of)
        figures[f"unrolled_{of}"] = correlations(differentiated.effect, truth_of)
        tracin = influence(model, train, queries, measure=of, method="tracin", lr=1.0)
        figures[f"tracin_{of}"] = correlations(tracin.effect[removed], truth_of)
        if of == "output":
            for name, ours in (
                ("gauss_newton", found.prediction_change[removed]),
                ("unrolled", differentiated.prediction_change),
            ):
                figures[f"information_pearson_{name}"] = float(
                    pearsonr(ours, truth.prediction_change)[0]
                )
    record(
        "attribution/leave one out, digits",
        n=len(train),
        queries=len(queries),
        removed=len(removed),
        damping=damping,
        tuned={str(d): v for d, v in tuned.items()},
        accuracy=float((truth.outputs.argmax(1) == queries.y).mean()),
        **figures,
    )
