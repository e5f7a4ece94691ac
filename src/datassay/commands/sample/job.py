"""The job of `datassay sample`: sample a function, ask whether it helps, gather the findings."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from torch import nn

from datassay.act.sample.comparison import SamplingComparison, compare_designs
from datassay.act.sample.domain import checked_domain
from datassay.act.sample.generalization_bound import bound_reductions, generalization_bound
from datassay.act.sample.taylor import TaylorSample, taylor_sample
from datassay.act.sample.taylor_index import taylor_index
from datassay.collect.curvature.derivatives import derivatives
from datassay.collect.curvature.point_function import PointFunction, point_function
from datassay.commands.command import closing_facts
from datassay.commands.sample.findings import (
    TAYLOR,
    UNIFORM,
    Bounds,
    Curve,
    SamplingFindings,
)
from datassay.data.samples import SampleSet
from datassay.data.synthetic.functions import FunctionProblem, function_problem
from datassay.errors import SettingError
from datassay.models.build import build_model
from datassay.models.reference import imported_reference
from datassay.progress import Progress, silent
from datassay.report.wording import count
from datassay.train.training import Recipe

RULE = "the function must be runge, tanh, bateman, bateman:M or package.module:function"
NETWORK = "mlp:width=32,depth=2"
RECIPE = Recipe(lr=3e-3, steps=2000, batch_size=256, loss="mse")
N_TEST, N_CURVE = 2000, 401
REPEATS = "sample again with other seeds"


@dataclass(frozen=True, slots=True)
class SampleSettings:
    """What the job can be told; every default is what `datassay sample FUNCTION` does.

    Attributes:
        function: as for `named_function`.
        domain: "low:high" pairs between commas, one an input; None: the built-in problem's own.
        n_initial: N.
        n_new: N'.
        order: n.
        epsilon: ε.
        components: K.
        initial: "uniform" or "grid".
        derivatives: "auto", "autograd" or "finite".
        compare: networks a design; 0 compares nothing and asks f for no more than the sampling.
        seed: of all draws and weights.
        command: what to print on the page as the command to repeat this.
    """

    function: str = "runge"
    domain: str | None = None
    n_initial: int = 100
    n_new: int = 100
    order: int = 2
    epsilon: float = 1e-3
    components: int = 3
    initial: str = "uniform"
    derivatives: str = "auto"
    compare: int = 10
    seed: int = 0
    command: str = ""

    @property
    def sampling(self) -> dict[str, Any]:
        """The arguments that `taylor_sample` takes as they are."""
        names = ("n_initial", "n_new", "order", "epsilon", "initial", "derivatives")
        return {name: getattr(self, name) for name in names} | {"n_components": self.components}


def named_function(name: str, domain: str | None) -> FunctionProblem:
    """The function of that name, and where it is asked for.

    Args:
        name: a built-in problem, or "package.module:function"; the current folder is searched too.
        domain: "low:high" pairs between commas; needed for the user's own function.

    Returns:
        The problem; its outputs are named later where the function is the user's own.

    Raises:
        SettingError: the name is unknown, or the domain is missing or cannot be read.
        ModelError: the function cannot be imported.
        DataError: the domain has no volume or the wrong number of inputs.
    """
    box = None if domain is None else checked_domain(_pairs(domain))
    if ":" not in name or name.startswith("bateman:"):
        problem = function_problem(name)
        if box is None:
            return problem
        if len(box) != len(problem.inputs):
            raise SettingError(
                f"domain must have one pair for each input of {name}, {', '.join(problem.inputs)}; "
                f"got {len(box)}."
            )
        names = (problem.inputs, problem.outputs)
        return FunctionProblem(problem.name, problem.function, box, *names)
    if box is None:
        raise SettingError(
            "domain must be given for a function of your own, one low:high pair an input; got "
            "none. Write --domain 0:1,0:10."
        )
    inputs = tuple(f"x{j}" for j in range(len(box)))
    return FunctionProblem(name, imported_reference(name, RULE), box, inputs, ())


def run_sample(settings: SampleSettings, progress: Progress = silent) -> SamplingFindings:
    """Everything `datassay sample` computes, without writing anything.

    Args:
        settings: what to run.
        progress: called with (step, units done, units in all).

    Returns:
        The findings, ready for `write_sampling`.

    Raises:
        DatassayError: the function or its domain cannot be used; one sentence says why.
        SettingError: a setting is outside its rule.
    """
    started = time.perf_counter()
    if settings.compare < 0:
        raise SettingError(f"compare must be at least 0; got {settings.compare}.")
    problem = named_function(settings.function, settings.domain)
    how = settings.sampling
    found = taylor_sample(
        problem.function, problem.domain, seed=settings.seed, progress=progress, **how
    )
    f = point_function(problem.function, found.x[:1])
    comparison = curve = None
    bounds: tuple[Bounds, ...] = ()
    if settings.compare:
        comparison = _compared(f, found, settings, progress)
        curve = _curve(f, found)
    if found.x.shape[1] == f.n_outputs == 1:
        bounds = _bounds(f, found)
    names = problem.outputs or _output_names(f.n_outputs)
    facts = _facts(problem, found, settings)
    facts |= closing_facts(started, settings.command)
    return SamplingFindings(
        problem.name, problem.inputs, names, found, comparison, curve, bounds, facts, found.notes
    )


def _pairs(text: str) -> list[list[float]]:
    try:
        ends = [pair.split(":") for pair in text.split(",")]
        return [[float(low), float(high)] for low, high in ends]
    except ValueError as error:  # no number, or not two of them
        raise SettingError(
            f"domain must be low:high pairs between commas, such as 0:1,0:10; got {text!r}."
        ) from error


def _output_names(q: int) -> tuple[str, ...]:
    return ("f",) if q == 1 else tuple(f"f{j}" for j in range(q))


def _compared(
    f: PointFunction, found: TaylorSample, settings: SampleSettings, progress: Progress
) -> SamplingComparison:
    """Both designs have the same initial points, run by run."""
    taylor, uniform = [], []
    how: dict[str, Any] = settings.sampling | {"derivatives": found.derivatives}
    for s in range(settings.compare):
        seed = settings.seed + s
        again = found
        if s:
            again = taylor_sample(f.function, found.domain, seed=seed, **how)
        progress(REPEATS, s + 1, settings.compare)
        more = _uniform(found.domain, settings.n_new, seed, 3)
        first = ~again.is_new
        taylor.append((again.x, again.y))
        uniform.append((
            np.concatenate([again.x[first], more]),
            np.concatenate([again.y[first], f(more)]),
        ))
    test = _uniform(found.domain, N_TEST, settings.seed, 4)
    if len(found.domain) == 1:
        test = np.linspace(found.domain[0, 0], found.domain[0, 1], N_TEST)[:, None]
    return compare_designs(
        {UNIFORM: uniform, TAYLOR: taylor},
        (test, f(test)),
        _networks(found, settings),
        RECIPE,
        seed=settings.seed,
        progress=progress,
    )


def _uniform(box: np.ndarray, n: int, seed: int, stream: int) -> np.ndarray:
    draw = np.random.default_rng([seed, stream])
    return draw.uniform(box[:, 0], box[:, 1], (n, len(box)))


def _networks(found: TaylorSample, settings: SampleSettings) -> list[nn.Module]:
    """Inputs scaled by the domain, so that both designs start from the same networks."""
    ends = found.domain.T
    y = np.zeros((2, found.y.shape[1]))
    scaled = SampleSet(ends, y[:, 0] if y.shape[1] == 1 else y, np.arange(2))
    models = []
    for s in range(settings.compare):
        network = build_model(NETWORK, scaled, seed=settings.seed + s)
        assert isinstance(network, nn.Sequential)
        models.append(network[:-1])  # the targets are scaled for training instead
    return models


def _curve(f: PointFunction, found: TaylorSample) -> Curve | None:
    if len(found.domain) > 1:
        return None
    x = np.linspace(found.domain[0, 0], found.domain[0, 1], N_CURVE)[:, None]
    method = found.derivatives
    _, tensors = derivatives(f, x, found.order, method=method, bounds=found.domain)
    return Curve(x[:, 0], f(x), taylor_index(tensors, found.epsilon))


def _bounds(f: PointFunction, found: TaylorSample) -> tuple[Bounds, ...]:
    """At K = 0 and at the largest slope seen."""
    n_new = int(found.is_new.sum())
    n = len(found.x) - n_new
    x = np.concatenate([found.x, _uniform(found.domain, n_new, found.seed, 3)])
    _, (slope,) = derivatives(f, x, 1, method=found.derivatives, bounds=found.domain)
    x, slope = x[:, 0], slope[:, 0, 0]
    taylor, uniform = np.arange(n + n_new), np.r_[:n, n + n_new : n + 2 * n_new]
    lines = {"taylor": (x[taylor], slope[taylor]), "uniform": (x[uniform], slope[uniform])}
    return tuple(_bounds_at(k, lines, n, found) for k in (0.0, float(np.abs(slope).max())))


def _bounds_at(
    k: float, lines: dict[str, tuple[np.ndarray, np.ndarray]], n: int, found: TaylorSample
) -> Bounds:
    (low, high), (x, slope) = found.domain[0], lines["taylor"]
    ends = (float(low), float(high))
    whole = {m: generalization_bound(*line, ends, lipschitz=k) for m, line in lines.items()}
    gain = {
        m: bound_reductions(x[:n], slope[:n], at[n:], steep[n:], ends, lipschitz=k)
        for m, (at, steep) in lines.items()
    }
    return Bounds(
        initial=generalization_bound(x[:n], slope[:n], ends, lipschitz=k),
        uniform=whole["uniform"],
        taylor=whole["taylor"],
        uniform_x=lines["uniform"][0],
        gain_uniform=gain["uniform"],
        gain_taylor=gain["taylor"],
    )


def _facts(
    problem: FunctionProblem, found: TaylorSample, settings: SampleSettings
) -> dict[str, str]:
    ends = ", ".join(
        f"{name} in [{low:g}, {high:g}]"
        for name, (low, high) in zip(problem.inputs, found.domain, strict=True)
    )
    k = len(found.density.weight)
    how = f"{found.derivatives}{' (auto)' if settings.derivatives == 'auto' else ''}"
    return {
        "Function": f"{problem.name}: {count(len(problem.inputs), 'input')}, "
        f"{count(found.y.shape[1], 'output')}",
        "Domain": ends,
        "Points": f"{settings.n_initial:,} initial ({settings.initial}), {settings.n_new:,} new",
        "Derivatives": f"to order {found.order}, {how}",
        "ε": f"{settings.epsilon:g}",
        "Mixture": f"{count(k, 'component')}, {settings.components} asked for",
        "Acceptance": f"{found.acceptance:.3f} ({found.tries:,} draws)",
        "Seed": str(settings.seed),
        "Version": version("datassay"),
    }
