"""The job of `datassay sample`: sample a function, ask whether it helps, gather the findings."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from datassay.collect.curvature.derivatives import PointFunction, derivatives, point_function
from datassay.commands.facts import closing_facts
from datassay.commands.frame import Findings
from datassay.data.samples import SampleSet
from datassay.data.synthetic.functions import FunctionProblem, function_problem
from datassay.errors import SettingError
from datassay.methods.sample.command import SampleSettings
from datassay.methods.sample.comparison import SamplingComparison, compare_designs
from datassay.methods.sample.density import check_domain
from datassay.methods.sample.taylor import TaylorSample, taylor_index, taylor_sample
from datassay.models.build import build_model
from datassay.models.reference import import_reference
from datassay.optional import text_if
from datassay.progress import Progress, silent
from datassay.report.wording import count
from datassay.results import result
from datassay.rules import at_least
from datassay.train.recipe import Recipe

RULE = "the function must be runge, tanh, bateman, bateman:M or package.module:function"
UNIFORM = "uniform"
TAYLOR = "Taylor-based"
NETWORK = "mlp:width=32,depth=2"
RECIPE = Recipe(lr=3e-3, steps=2000, batch_size=256, loss="mse")
N_TEST, N_CURVE = 2000, 401

# Beyond these the work takes days: points, derivatives, Gaussians, networks trained.
MOST = {
    "n_initial": 1_000_000,
    "n_new": 1_000_000,
    "order": 20,
    "components": 1000,
    "compare": 1000,
}


@result
class SamplingFindings(Findings):
    """A sampling of a function, and whether it helps."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sample: TaylorSample
    comparison: SamplingComparison | None = None  # of uniform and of Taylor-based points
    # Of one input, where f may be asked for more: x [m], f [m, q] and Df [m] on a fine grid.
    curve: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @property
    def n_new(self) -> int:
        """The number of points that were added."""
        return int(self.sample.is_new.sum())


def run(settings: SampleSettings, progress: Progress = silent) -> SamplingFindings:
    """Compute everything that `datassay sample` shows, without writing anything."""
    started = time.perf_counter()
    at_least("compare", settings.compare, 0)
    for name, cap in MOST.items():
        if getattr(settings, name) > cap:
            raise SettingError(f"{name} must be at most {cap:,}; got {getattr(settings, name):,}.")
    problem = _find_problem(settings.function, settings.domain)
    options = _design(settings)
    sample = taylor_sample(
        problem.function, problem.domain, seed=settings.seed, progress=progress, **options
    )
    f = point_function(problem.function, sample.x[:1])
    outputs = problem.outputs
    if not outputs and f.n_outputs == 1:
        outputs = ("f",)
    elif not outputs:
        outputs = tuple(f"f{j}" for j in range(f.n_outputs))
    facts = _list_facts(problem, sample, settings)
    return SamplingFindings(
        name=problem.name,
        inputs=problem.inputs,
        outputs=outputs,
        sample=sample,
        comparison=_compare_designs(f, sample, settings, progress) if settings.compare else None,
        curve=_evaluate_curve(f, sample) if settings.compare and len(sample.domain) == 1 else None,
        facts=facts | closing_facts(started, settings.seed, settings.command),
        warnings=sample.notes,
    )


def _find_problem(name: str, domain: str | None) -> FunctionProblem:
    """Return a built-in function, or the user's own, with its domain."""
    box = None
    if domain is not None:
        box = check_domain(_parse_pairs(domain))
    if ":" not in name or name.startswith("bateman:"):
        problem = function_problem(name)
        if box is None:
            return problem
        if len(box) != len(problem.inputs):
            raise SettingError(
                f"domain must have one pair for each input of {name}, {', '.join(problem.inputs)}; "
                f"got {len(box)}."
            )
        return replace(problem, domain=box)
    if box is None:
        raise SettingError(
            "domain must be given for a function of your own, one low:high pair an input; got "
            "none. Write --domain 0:1,0:10."
        )
    inputs = tuple(f"x{j}" for j in range(len(box)))
    return FunctionProblem(name, import_reference(name, RULE), box, inputs, ())


def _parse_pairs(text: str) -> list[list[float]]:
    """Return the pairs of a text such as "0:1,0:10"; raise if it is none."""
    try:
        ends = [pair.split(":") for pair in text.split(",")]
        return [[float(low), float(high)] for low, high in ends]
    except ValueError as error:  # no number, or not two of them
        raise SettingError(
            f"domain must be low:high pairs between commas, such as 0:1,0:10; got {text!r}."
        ) from error


def _design(settings: SampleSettings) -> dict[str, Any]:
    """Return the options of `taylor_sample`, but for the seed."""
    names = ("n_initial", "n_new", "order", "epsilon", "initial", "derivatives")
    return {"n_components": settings.components, **{n: getattr(settings, n) for n in names}}


def _compare_designs(
    f: PointFunction, sample: TaylorSample, settings: SampleSettings, progress: Progress
) -> SamplingComparison:
    """Return errors of networks trained on uniform and on Taylor-based new points."""
    taylor = []
    uniform = []
    options: dict[str, Any] = {**_design(settings), "derivatives": sample.derivatives}
    for s in range(settings.compare):
        seed = settings.seed + s
        redrawn = sample
        if s:
            redrawn = taylor_sample(f.function, sample.domain, seed=seed, **options)
        progress("sample again with other seeds", s + 1, settings.compare)
        new_x = _uniform(sample.domain, settings.n_new, seed, stream=3)
        is_initial = ~redrawn.is_new
        taylor.append((redrawn.x, redrawn.y))
        uniform.append((
            np.concatenate([redrawn.x[is_initial], new_x]),
            np.concatenate([redrawn.y[is_initial], f(new_x)]),
        ))
    test_x = _uniform(sample.domain, N_TEST, settings.seed, stream=4)
    if len(sample.domain) == 1:
        test_x = np.linspace(sample.domain[0, 0], sample.domain[0, 1], N_TEST)[:, None]
    return compare_designs(
        {UNIFORM: uniform, TAYLOR: taylor},
        (test_x, f(test_x)),
        _make_networks(sample, settings),
        RECIPE,
        seed=settings.seed,
        progress=progress,
    )


def _uniform(box: np.ndarray, n: int, seed: int, stream: int) -> np.ndarray:
    draw = np.random.default_rng([seed, stream])
    return draw.uniform(box[:, 0], box[:, 1], (n, len(box)))


def _make_networks(sample: TaylorSample, settings: SampleSettings) -> list[nn.Module]:
    """Return untrained networks with inputs scaled by the domain, for both designs."""
    y = np.zeros((2, sample.y.shape[1]))
    # Two samples, the ends of the domain, from which the networks take center and spread.
    corners = SampleSet(sample.domain.T, y[:, 0] if y.shape[1] == 1 else y, np.arange(2))
    models = []
    for s in range(settings.compare):
        network = build_model(NETWORK, corners, seed=settings.seed + s)
        assert isinstance(network, nn.Sequential)
        models.append(network[:-1])  # the targets are scaled for training instead
    return models


def _evaluate_curve(
    f: PointFunction, sample: TaylorSample
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, f(x) and the Taylor index over the domain, to plot."""
    x = np.linspace(sample.domain[0, 0], sample.domain[0, 1], N_CURVE)[:, None]
    _, tensors = derivatives(f, x, sample.order, method=sample.derivatives, bounds=sample.domain)
    return x[:, 0], f(x), taylor_index(tensors, sample.epsilon)


def _list_facts(
    problem: FunctionProblem, sample: TaylorSample, settings: SampleSettings
) -> dict[str, str]:
    """Return the page's facts: name → text."""
    ends = ", ".join(
        f"{name} in [{low:g}, {high:g}]"
        for name, (low, high) in zip(problem.inputs, sample.domain, strict=True)
    )
    k = len(sample.density.weight)
    method = sample.derivatives + text_if(settings.derivatives == "auto", " (auto)")
    return {
        "Function": f"{problem.name}: {count(len(problem.inputs), 'input')}, "
        f"{count(sample.y.shape[1], 'output')}",
        "Domain": ends,
        "Points": f"{settings.n_initial:,} initial ({settings.initial}), {settings.n_new:,} new",
        "Derivatives": f"to order {sample.order}, {method}",
        "ε": f"{settings.epsilon:g}",
        "Mixture": f"{count(k, 'component')}, {settings.components} asked for",
        "Acceptance": f"{sample.acceptance:.3f} ({sample.tries:,} draws)",
    }
