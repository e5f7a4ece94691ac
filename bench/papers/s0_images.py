"""VBSW on images: MNIST with LeNet-5 (S0 Table 2); a last layer retrained under weights or none.

S0's gain of a model is that of the best of its retrainings on the test set itself, which the best
of ten copies of nothing would have too. Compared with it stands the mean over retrainings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from bench.data import idx_images, image_set, kept, work
from bench.frame import Case, Options, Row, Task
from bench.stats import best_mean_error, interval
from jaxtyping import Bool
from torch import nn
from torch.nn.functional import cross_entropy

from datassay.act import Weightings, head_problem
from datassay.data import SampleSet
from datassay.models import lenet5
from datassay.train import HeadRecipe

BATCH, LR = 128, 2e-3
NETWORKS, EPOCHS, RETRAININGS = 5, 4, 10
RETRAINED = {"fresh": 8, "trained": 4}  # epochs of the last layer on MNIST; the paper: 25
UNIFORM, S0 = 0, 1  # positions of the two weightings
PAIR = (20, 40.0)  # k and m of S0's images


def lenet(samples: SampleSet, seed: int) -> nn.Module:
    """LeNet-5 trained by Adam, its rate falling in a line from 0.002 to 0; kept."""
    torch.manual_seed(seed)
    model = lenet5(samples.input_shape, samples.n_classes)

    def learnt() -> dict[str, np.ndarray]:
        x, y = torch.as_tensor(samples.x), torch.as_tensor(samples.y)
        optimizer = torch.optim.Adam(model.parameters(), LR, fused=True)
        steps = EPOCHS * -(-len(x) // BATCH)
        rate = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(x)).split(BATCH):
                optimizer.zero_grad()
                cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
                rate.step()
        return {name: t.numpy() for name, t in model.state_dict().items()}

    state = kept(work() / f"lenet_{samples.name}_{seed}.npz", learnt)
    model.load_state_dict({name: torch.as_tensor(t) for name, t in state.items()})
    return model.eval()


@dataclass(frozen=True, slots=True, eq=False)
class Retrained:
    """One network before and after: before [m] and right [seeds, weightings, m] test images."""

    before: Bool[np.ndarray, " m"]
    right: Bool[np.ndarray, "S M m"]


def retrained(
    network: nn.Module,
    train: SampleSet,
    test: SampleSet,
    recipe: HeadRecipe,
    n_seeds: int,
) -> Retrained:
    """The layer retrained with uniform weights and with those of S0's k and m."""
    problem = head_problem(network, train)
    weightings = Weightings(problem, PAIR[0], "auto")
    weights = np.stack([np.full(len(train), 1 / len(train)), weightings(*PAIR)])
    features = problem.head.features(test)
    before = problem.head.outputs(features).argmax(1).numpy() == test.y
    trained = problem.train(weights, recipe, seeds=tuple(range(n_seeds)))
    return Retrained(before, trained.outputs(features).argmax(-1).numpy() == test.y)


def figures(cells: Sequence[Retrained]) -> dict[str, object]:
    """Best, mean ± se and gains by S0's own k and m, in per cent, with 95 % intervals."""
    base = 100 * np.array([c.before.mean() for c in cells])
    results: dict[str, object] = {"baseline": best_mean_error(base)}
    for name, j in (("uniform", UNIFORM), ("vbsw", S0)):
        accuracy = 100 * np.stack([c.right[:, j].mean(-1) for c in cells])  # [networks, S]
        top = accuracy.max(1)
        results |= {
            f"{name}_best_of_retrainings": best_mean_error(top),
            f"{name}_all": best_mean_error(accuracy.mean(1)),
            f"{name}_s0_gain": [float((top - base).max()), *interval(top - base)],
            f"{name}_mean_gain": interval(accuracy.mean(1) - base),
        }
    between = [c.right[:, S0].mean(0) - c.right[:, UNIFORM].mean(0) for c in cells]
    best = np.stack([c.right.mean(-1).max(0) for c in cells])  # [networks, weightings]
    return results | {
        "vbsw_minus_uniform": interval([100 * d.mean() for d in between]),
        "vbsw_minus_uniform_s0_gain": interval(100 * (best[:, S0] - best[:, UNIFORM])),
    }


def mnist(start: str, options: Options) -> dict[str, object]:
    train, test = (image_set(*idx_images("mnist", part), "mnist") for part in ("train", "test"))
    recipe = HeadRecipe(start=start, epochs=RETRAINED[start])
    networks = (lenet(train, seed) for seed in range(NETWORKS))
    cells = [retrained(network, train, test, recipe, RETRAININGS) for network in networks]
    return {"n": len(train), "networks": NETWORKS, "retrainings": RETRAININGS, **figures(cells)}


def rows(lines: dict[str, dict]) -> Row:
    mnist, bias = lines["s0_images/mnist fresh"], lines["papers/s0_active_bias"]
    values = [mnist[name][1] for name in ("baseline", "vbsw_all", "uniform_all")]
    values += [bias[name][1] for name in ("vanilla", "vanilla_vbsw", "vanilla_uniform")]
    return Row(
        "LeNet-5, accuracy in %: as trained, last layer retrained with these weights (and "
        "without): all of MNIST; 10 000 images of Fashion-MNIST",
        "{:.2f}, {:.2f} ({:.2f}); {:.2f}, {:.2f} ({:.2f})".format(*values),
        bench="papers/s0_images.py, papers/s0_active_bias.py",
    )


TASK = Task(
    measure="S0 Table 2: last layers retrained under weights",
    cases={f"mnist {start}": Case(partial(mnist, start)) for start in RETRAINED},
    lines="s0_images/",
    rows=rows,
)
