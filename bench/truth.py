"""prediction_change against really retraining without each sample, on two digit classes.

MLPs of two widths, full-batch gradient descent on the mean squared error, the paper's recipe (S1
Table 1 reports Pearson 0.993 for predictions, 0.987 for weights on MNIST 4 vs 9). The networks
without a sample train in one batched program beside the one with all.
"""

import time

import numpy as np
import torch
from record import record
from scipy.stats import bootstrap, pearsonr

from datassay.collect import collect
from datassay.data import SampleSet, load
from datassay.models import build_model
from datassay.score import leave_one_out
from datassay.train import Recipe, train_networks

# (width, steps, networks retrained): the wide one is the claim, the narrow one its limit.
CASES = ((1024, 1000, 100), (64, 5000, 60))
CLASSES = (4, 9)


def two_classes(samples: SampleSet) -> SampleSet:
    keep = np.isin(samples.y, CLASSES)
    y = (samples.y[keep] == CLASSES[1]).astype("int64")
    names = tuple(str(c) for c in CLASSES)
    return SampleSet(x=samples.x[keep], y=y, ids=samples.ids[keep], class_names=names)


def retrain(model, train, val, removed, lr, steps):
    """Outputs on val and weights: the first network has all samples, network i lacks removed[i]."""
    everything = np.arange(len(train))
    subsets = [np.delete(everything, i) for i in removed]
    recipe = Recipe(optimizer="sgd", lr=lr, steps=steps, batch_size=None, loss="mse")
    runs = [
        train_networks([model] * len(part), train, torch.as_tensor(np.stack(part)), recipe)
        for part in ([everything], subsets)
    ]
    x = torch.as_tensor(val.x).float()
    outputs = [r.outputs(x).double() for r in runs]
    change = (outputs[0] - outputs[1]).square().sum((1, 2))
    weights = sum(
        (runs[0].state[name] - runs[1].state[name]).double().square().flatten(1).sum(1)
        for name, _ in model.named_parameters()
    )
    return change.numpy(), weights.numpy()


def main() -> None:
    for width, steps, n_retrained in CASES:
        case(width, steps, n_retrained)


def case(width: int, steps: int, n_retrained: int) -> None:
    train, val = (two_classes(part) for part in load("digits", val_fraction=0.4))
    model = build_model(f"mlp:width={width}", train)
    lin = collect(model, train, val)
    largest = float(torch.linalg.eigvalsh(lin.kernel)[-1])
    lr = 0.5 * len(train) / largest
    start = time.perf_counter()
    run = {"lr": lr, "steps": steps, "reduction": "mean", "dynamics": "descent"}
    found = leave_one_out(lin, **run)
    ours = time.perf_counter() - start
    removed = np.random.default_rng(0).choice(len(train), n_retrained, replace=False)
    start = time.perf_counter()
    change, weights = retrain(model, train, val, removed, lr, steps)
    truth = time.perf_counter() - start
    pairs = {
        "prediction": (found.prediction_change[removed], change),
        "weight": (found.weight_change[removed], weights),
    }
    figures = {}
    for name, (a, b) in pairs.items():
        interval = bootstrap(
            (a, b), lambda a, b: pearsonr(a, b)[0], paired=True, vectorized=False, rng=0
        ).confidence_interval
        figures[f"{name}_pearson"] = float(pearsonr(a, b)[0])
        figures[f"{name}_interval"] = [float(interval.low), float(interval.high)]
    record(
        f"truth/digits 4 vs 9, width {width}",
        n=len(train),
        m=len(val),
        width=width,
        steps=steps,
        lr=lr,
        retrained=n_retrained,
        seconds=ours,
        retraining_seconds=truth,
        **figures,
    )


if __name__ == "__main__":
    main()
