"""Samples a second that become p features each: Datassay, torch.func, TRAK, dattri, kronfluence.

Same network, same Fashion-MNIST images, same number of features, float32, same threads; contenders
take turns and the best of several turns counts. Two tasks:

- scalar: one gradient a sample, of the network's first output: what TRAK and dattri compute;
- joint: the gradients of all 10 outputs, [n, 10, p]. The libraries that take a scalar need ten such
  passes, so theirs is a tenth of their scalar figure and is not timed again.

"averaged" is Datassay's one row of features a sample for all 10 outputs: 10 backward passes, so it
has no twin among the rivals. What a rival computes is not always the same: each line says what.

The rivals are no dependency of the library. In an environment of its own:

    pip install -c constraints.txt -e '.[dev]' traker dattri kronfluence
    DATASSAY_DATA=... OMP_NUM_THREADS=2 python bench/throughput.py cnn mlp

`dense` as a further argument adds the dense projections that TRAK and dattri have for CPUs.
"""

import contextlib
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch
from record import record
from torch import nn
from torch.func import functional_call, grad, jacrev, vmap

import datassay as da
from datassay.collect import frozen_copy, inspect_layers, projector
from datassay.data import SampleSet

# Features a tensor at most, so that all tensors together have about 4096.
EACH = {"mlp": 1787, "cnn": 587, "lenet5": 951}
SEED, TURNS, BATCH, K = 0, 3, 64, 10
# Datassay takes more samples than features, or it would go on to multiply a kernel, and so many
# that it chooses float32.
SCALAR_SAMPLES, JOINT_SAMPLES, AVERAGED_SAMPLES = 16_384, 2560, 4608
# TRAK's and dattri's projections for CPUs draw their p columns anew for each batch: minutes.
DENSE = "dense" in sys.argv
# Every contender: what it does in a turn → samples it did.
Turn = Callable[[], int]


class First(nn.Module):
    """The first output alone, [n, k] → [n, 1]."""

    def forward(self, z):
        """Column 0."""
        return z[:, :1]


def images(n: int) -> SampleSet:
    """The first n training images of Fashion-MNIST."""
    train, _ = da.load(Path(os.environ["DATASSAY_DATA"]) / "fashion_mnist")
    return train.subset(np.arange(n))


def ours(name: str, net: nn.Module, samples: SampleSet) -> tuple[int, dict[str, Turn]]:
    """Datassay's own `collect`, with all that it checks, and p."""
    numbers = SampleSet(samples.x, samples.y.astype(float), ids=samples.ids)
    first = nn.Sequential(net, First())
    few, more = (samples.subset(np.arange(n)) for n in (JOINT_SAMPLES, AVERAGED_SAMPLES))

    def collected(model, train, outputs):
        lin = da.collect(model, train, projection=EACH[name], outputs=outputs, seed=SEED)
        assert lin.form.representation == "features" and lin.form.precision == "float32"
        return len(train)

    layers = inspect_layers(frozen_copy(net, torch.float32), torch.tensor(samples.x[:1]).float())
    p = sum(
        t.n_features for t in projector(layers, EACH[name], "coordinates", SEED).tensors.values()
    )
    return p, {
        "datassay scalar": lambda: collected(first, numbers, "joint"),
        "datassay joint": lambda: collected(net, few, "joint"),
        "datassay averaged": lambda: collected(net, more, "averaged"),
    }


def torch_func(net: nn.Module, x: torch.Tensor, p: int) -> dict[str, Turn]:
    """torch.func by itself: all gradients, then p random coordinates or a dense projection."""
    weights = {n: w.detach() for n, w in net.named_parameters()}
    buffers = dict(net.named_buffers())
    d = sum(w.numel() for w in weights.values())
    kept = torch.randperm(d, generator=torch.Generator().manual_seed(SEED))[:p].sort().values
    # One block of columns stands for all: the whole matrix would not fit in memory.
    block = torch.randn(d, 512)

    def outputs(weights, sample):
        return functional_call(net, {**weights, **buffers}, (sample[None],))[0]

    one = vmap(grad(lambda w, s: outputs(w, s)[0]), in_dims=(None, 0))
    every = vmap(jacrev(outputs), in_dims=(None, 0))

    def chosen(gradients, start):
        flat = [g.flatten(start) for g in gradients.values()]
        ends = np.cumsum([g.shape[-1] for g in flat])
        parts = []
        for g, end in zip(flat, ends, strict=True):
            index = kept[(kept >= end - g.shape[-1]) & (kept < end)] - (end - g.shape[-1])
            parts.append(g.gather(-1, index.expand(*g.shape[:-1], -1)))
        return torch.cat(parts, -1)

    def dense(gradients):
        flat = torch.cat([g.flatten(1) for g in gradients.values()], 1)
        return [flat @ block for _ in range(-(-p // 512))]

    batch, few = x[:BATCH], x[:8]  # of 8: 10 gradients of 64 samples would take gigabytes
    return {
        "torch.func scalar": lambda: len(chosen(one(weights, batch), 1)),
        "torch.func joint": lambda: len(chosen(every(weights, few), 2)),
        "torch.func dense scalar": lambda: len(dense(one(weights, batch))[0]),
    }


def trak(net: nn.Module, x: torch.Tensor, p: int, folder: str) -> dict[str, Turn]:
    """TRAKer.featurize: vmap(grad), then its Gaussian projection for CPUs, or p coordinates."""
    from trak import TRAKer
    from trak.modelout_functions import AbstractModelOutput
    from trak.projectors import AbstractProjector, BasicProjector, ProjectionType

    class FirstOutput(AbstractModelOutput):
        def __init__(self):
            super().__init__()

        @staticmethod
        def get_output(model, weights, buffers, image):
            return functional_call(model, (weights, buffers), image[None])[0, 0]

        def get_out_to_loss_grad(self, model, weights, buffers, batch):
            return torch.ones(len(batch[0]), 1)

    class Coordinates(AbstractProjector):
        def __init__(self, d):
            super().__init__(d, p, SEED, ProjectionType.normal, "cpu")
            generator = torch.Generator().manual_seed(SEED)
            self.kept = torch.randperm(d, generator=generator)[:p].sort().values

        def project(self, grads, model_id):
            flat = torch.cat([g.flatten(1) for g in grads.values()], 1)
            return flat[:, self.kept]

    d = sum(w.numel() for w in net.parameters())
    settings = {"proj_type": ProjectionType.rademacher, "device": "cpu"}
    projectors = {
        "traker coordinates scalar": Coordinates(d),
    }
    if DENSE:
        projectors["traker scalar"] = BasicProjector(d, p, SEED, **settings)
    turns = {}
    for number, (what, how) in enumerate(projectors.items()):
        traker = TRAKer(
            net,
            FirstOutput(),
            train_set_size=len(x),
            save_dir=f"{folder}/trak{number}",
            device="cpu",
            proj_dim=p,
            projector=how,
            use_half_precision=False,
            logging_level=logging.ERROR,
        )
        traker.load_checkpoint(net.state_dict(), model_id=0)
        turns[what] = Featurize(traker, x)
    return turns


class Featurize:
    """The next batch of samples, and round again: TRAKer skips those that it has."""

    def __init__(self, traker, x: torch.Tensor):
        self.traker, self.x, self.start = traker, x, 0

    def __call__(self) -> int:
        """Features of one batch."""
        part = np.arange(self.start, self.start + BATCH)
        self.start += BATCH
        self.traker.featurize(batch=(self.x[part],), inds=part)
        return BATCH


def dattri(net: nn.Module, x: torch.Tensor, p: int, folder: str) -> dict[str, Turn]:
    """Gradients of its task and its projections for CPUs; LoGra's factored ones of dense layers."""
    from dattri.algorithm.logra import LoGraAttributor
    from dattri.func.projection import random_project
    from dattri.task import AttributionTask
    from torch.utils.data import DataLoader, TensorDataset

    def first_output(weights, sample):
        return functional_call(net, weights, sample[None])[0, 0]

    task = AttributionTask(first_output, net, net.state_dict())
    gradient = task.get_grad_target_func(in_dims=(None, 0))
    weights, _ = task.get_param(ckpt_idx=0)
    batch = x[:BATCH]
    like = gradient(weights, batch)
    turns: dict[str, Turn] = {}
    kinds = {"coordinates ": "random_mask"} | ({"": "rademacher"} if DENSE else {})
    for what, kind in kinds.items():
        to = random_project(like, BATCH, p, 32, SEED, kind, device="cpu")
        turns[f"dattri {what}scalar"] = lambda to=to: len(
            to(gradient(weights, batch), ensemble_id=0)
        )

    def summed(model, batch, device):
        return model(batch[0])[:, 0].sum()

    # A square number a layer, so that the layers together have at most p.
    names = [n for n, m in net.named_modules() if isinstance(m, nn.Linear)]
    each = int((p / len(names)) ** 0.5) ** 2
    loader = DataLoader(TensorDataset(x[:512]), batch_size=256)

    def logra():
        summed_task = AttributionTask(summed, net, net.state_dict())
        found = LoGraAttributor(
            summed_task, names, hessian="Identity", proj_dim=each, offload="none", cache_dir=folder
        )
        found.cache(loader)
        return 512

    return turns | {"dattri logra, dense layers only, scalar": logra}


def kronfluence(net: nn.Module, x: torch.Tensor, folder: str) -> dict[str, Turn]:
    """Its nearest pass: squared length of every per-sample gradient, nothing projected or kept."""
    from kronfluence.analyzer import Analyzer, prepare_model
    from kronfluence.arguments import ScoreArguments
    from kronfluence.task import Task
    from torch.utils.data import TensorDataset

    class FirstOutput(Task):
        def compute_train_loss(self, batch, model, sample=False):
            return model(batch[0])[:, 0].sum()

        def compute_measurement(self, batch, model):
            return model(batch[0])[:, 0].sum()

    task = FirstOutput()
    model = prepare_model(frozen_copy(net, torch.float32), task)
    analyzer = Analyzer("first", model, task, cpu=True, output_dir=folder, disable_tqdm=True)
    data = TensorDataset(x[:512])
    analyzer.fit_all_factors(
        "identity",
        data,
        per_device_batch_size=BATCH,
        factor_args=_identity(),
        overwrite_output_dir=True,
    )

    def scored():
        analyzer.compute_self_scores(
            "self",
            "identity",
            data,
            per_device_train_batch_size=BATCH,
            score_args=ScoreArguments(),
            overwrite_output_dir=True,
        )
        return 512

    return {"kronfluence gradients only, scalar": scored}


def _identity():
    from kronfluence.arguments import FactorArguments

    return FactorArguments(strategy="identity")


def contenders(name: str, folder: str) -> tuple[int, dict[str, Turn], dict[str, str]]:
    """p, every contender's turn, and why those that are missing are."""
    samples = images(SCALAR_SAMPLES)
    torch.manual_seed(SEED)
    net = frozen_copy(da.build_model(name, samples, seed=SEED), torch.float32)
    x = torch.tensor(samples.x[:AVERAGED_SAMPLES], dtype=torch.float32)
    p, turns = ours(name, net, samples)
    missing = {}
    # Whatever a rival raises, the line says so.
    rivals = {
        "torch.func": lambda: torch_func(net, x, p),
        "traker": lambda: trak(net, x, p, folder),
        "dattri": lambda: dattri(net, x, p, folder),
        "kronfluence": lambda: kronfluence(net, x, folder),
    }
    for rival, made in rivals.items():
        try:
            turns |= made()
        except Exception as error:  # noqa: BLE001
            missing[rival] = f"{type(error).__name__}: {error}"[:300]
    return p, turns, missing


def best_rates(turns: dict[str, Turn], missing: dict[str, str]) -> dict[str, float]:
    """Samples a second, the best of several turns after one to warm up; the slow have that one."""
    rates: dict[str, float] = {}
    for turn in range(TURNS + 1):
        for what, take in turns.items():
            if what in missing or (turn and rates[what] < 10):
                continue
            start = time.perf_counter()
            try:
                done = take()
            except Exception as error:  # noqa: BLE001
                missing[what] = f"{type(error).__name__}: {error}"[:300]
                continue
            rate = done / (time.perf_counter() - start)
            print(f"{what}: {rate:.1f} samples/s", flush=True)
            rates[what] = rate if turn <= 1 else max(rates[what], rate)  # the first warms up
    return {what: rate for what, rate in rates.items() if what not in missing}


def measured(name: str) -> None:
    """One line of results.jsonl for a network."""
    # dattri writes a file beside wherever it runs.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        p, turns, missing = contenders(name, folder)
        rates = best_rates(turns, missing)
    # Of what is comparable: all parameters, p features.
    rivals = {w: r for w, r in rates.items() if not w.startswith("datassay") and "only" not in w}
    scalar = {w: r for w, r in rivals.items() if w.endswith("scalar")}
    joint = {w: r if w.endswith("joint") else r / K for w, r in rivals.items()}
    fastest = {
        "scalar": max(scalar, key=scalar.__getitem__),
        "joint": max(joint, key=joint.__getitem__),
    }
    record(
        f"throughput/{name}",
        p=p,
        k=K,
        dtype="float32",
        samples_a_second=rates,
        scalar_ratio=rates["datassay scalar"] / scalar[fastest["scalar"]],
        joint_ratio=rates["datassay joint"] / joint[fastest["joint"]],
        fastest_rival=fastest,
        missing=missing,
        rivals=_versions(),
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in ("traker", "dattri", "kronfluence"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    networks = [name for name in sys.argv[1:] if name != "dense"]
    for network in networks or ("cnn", "mlp"):
        measured(network)
