"""VBSW on images: MNIST with LeNet-5 (S0 Table 2)."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from bench.data import idx_images, image_set, kept, work
from bench.frame import Case, Options, Row, Task
from bench.papers.s0_gain import PAIR, figures, retrained, tuned
from torch import nn
from torch.nn.functional import cross_entropy

from datassay.data import SampleSet
from datassay.models import lenet5
from datassay.train import HeadRecipe

BATCH, LR = 128, 2e-3
NETWORKS, EPOCHS, RETRAININGS = 5, 4, 10
RETRAINED = {"fresh": 8, "trained": 4}  # epochs of the last layer on MNIST; the paper: 25
MNIST_PAIRS = (PAIR, (20, 2.0), (20, 5.0))


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


def mnist_sets() -> tuple[SampleSet, SampleSet]:
    """All of MNIST."""
    train, test = (image_set(*idx_images("mnist", part), "mnist") for part in ("train", "test"))
    return train, test


def mnist(start: str, options: Options) -> dict[str, object]:
    train, test = mnist_sets()
    recipes = [HeadRecipe(start=start, epochs=RETRAINED[start])]
    networks = (lenet(train, seed) for seed in range(NETWORKS))
    cells = [retrained(n, train, test, MNIST_PAIRS, recipes, RETRAININGS)[0] for n in networks]
    return {"n": len(train), "networks": NETWORKS, "retrainings": RETRAININGS, **figures(cells),
            **tuned(cells, MNIST_PAIRS)}  # fmt: skip


def rows(lines: dict[str, dict]) -> list[Row]:
    mnist, bias = lines["s0_images/mnist fresh"], lines["papers/s0_active_bias"]
    values = [mnist[name][1] for name in ("baseline", "vbsw_all", "uniform_all")]
    values += [bias[name][1] for name in ("vanilla", "vanilla_vbsw", "vanilla_uniform")]
    return [
        Row(
            "LeNet-5, accuracy in %: as trained, last layer retrained with these weights (and "
            "without): all of MNIST; 10 000 images of Fashion-MNIST",
            "{:.2f}, {:.2f} ({:.2f}); {:.2f}, {:.2f} ({:.2f})".format(*values),
            bench="papers/s0_images.py, papers/s0_active_bias.py",
        )
    ]


TASK = Task(
    measure="S0 Table 2: last layers retrained under weights",
    cases={
        **{f"mnist {start}": Case(partial(mnist, start)) for start in RETRAINED},
    },
    lines="s0_images/",
    rows=rows,
)
