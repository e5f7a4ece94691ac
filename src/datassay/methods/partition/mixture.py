"""A mixture of models that are linear in their weights, by soft expectation–maximisation.

p(y | x) = Σ_k π_k p_k(y | x),  p_k softmax or logistic of J θ_k, or a normal of mean J θ_k

E: r_ik = π_k p_k(y_i|x_i) / Σ_l π_l p_l(y_i|x_i).  M: θ_k by one step of the ridge fit under
weights r_·k, π_k and the noise exactly. With a gate, π_k is softmax of gᵀ γ_k for inputs g, and γ
moves by a step too. Restarts, and folds of a cross-validation, go in one batch.
"""

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from datassay.collect.curvature.output_geometry import OutputFeatures, SharedFeatures
from datassay.collect.loss import loss_named
from datassay.optional import coalesce
from datassay.results import result
from datassay.train.convex import fit_convex, step_by_class

MAX_ITERATIONS = 200
# All restarts run for SURVEY iterations, the FINALISTS best for twice as many, LAST to the end.
SURVEY = 20
FINALISTS = 6
LAST = 2
# Weights of a model up to which its steps are Newton's. Beyond they cost too much, and a step moves
# each class's weights by themselves, which finds worse optima: for two letter rules of 164 weights
# a held-out log-likelihood of -0.79 in place of -0.70.
MOST_NEWTON = 200
# Last iterations of the best run, by Newton's steps, which end where the fit of each model does.
POLISHING = 10
# Newton steps that fit the models to given responsibilities; after fewer the start is forgotten. Of
# steps class by class three times as many.
FITTING_STEPS = 10
# Change of the mean log-likelihood below which a run has converged, nats per sample.
TOLERANCE = 1e-5
# Weight, in samples, that all samples together have in every block beside their responsibilities:
# so no block can die or shrink to a noise of 0.
PRIOR = 1.0


@result
class Mixture:
    """A fitted mixture: the best of several restarts.

    Attributes:
        weights: θ, [K, p].
        mixing: π, [K], largest first, sums to 1; with a gate its mean over the samples.
        noise: σ_k², [K], squared target unit; ones for classes, which have none.
        gate: γ, [K, g]; g is 0 without a gate.
        responsibility: r, [n, K], rows sum to 1.
        log_likelihood: mean log p(y_i|x_i) of the weighted samples, nats.
        restart_log_likelihood: [restarts], the same where each of them ended, all but the best
            before they came to rest.
        converged: whether the best one came to rest.
    """

    weights: Float[Tensor, "K p"]
    mixing: Float[Tensor, " K"]
    noise: Float[Tensor, " K"]
    gate: Float[Tensor, "K g"]
    responsibility: Float[Tensor, "n K"]
    log_likelihood: float
    restart_log_likelihood: Float[Tensor, " restarts"]
    converged: bool

    def joint(
        self,
        features: OutputFeatures,
        targets: Float[Tensor, "m k"],
        loss: str,
        gate_inputs: Float[Tensor, "m g"] | None = None,
    ) -> Float[Tensor, "m K"]:
        """Return log π_k + log p_k(y_i|x_i) of any samples; gate_inputs where there is a gate."""
        log_density = log_densities(features.outputs(self.weights), targets, loss, self.noise)
        return (log_density + log_prior(self.mixing, self.gate.flatten(), gate_inputs)).T


def fit_mixture(
    problem: "MixtureProblem",
    n_blocks: int,
    *,
    restarts: int = 8,
    seed: int = 0,
    starts: Sequence[Float[Tensor, "n K"]] = (),
) -> Mixture:
    """Return the best of several EM runs with n_blocks models, largest block first."""
    # Restarts are from responsibilities drawn uniformly from the simplex, each sample's for itself.
    # An iteration is a step for (restarts + starts) K models, of many classes each by itself: 20
    # iterations for all, 40 for the best six, and some 20 to 100 for two.
    # Source: METHODS §4; Dempster, Laird and Rubin (1977), Jordan and Jacobs (1994) §5.2 for Newton
    # steps as M step. Deviates by the prior weight of one sample in each block.
    if n_blocks == 1:
        return _fit_single_model(problem)
    n = len(problem.features)
    drawn = np.random.default_rng(seed).dirichlet(np.ones(n_blocks), (restarts, n))
    sample_weight = problem.sample_weight.expand(restarts + len(starts), -1)
    runs = problem.start(torch.from_numpy(drawn).mT, sample_weight[:restarts])
    if starts:
        start_responsibilities = torch.stack([start.T for start in starts])
        runs = runs.concatenate(problem.fit_to(start_responsibilities, sample_weight[restarts:]))
    stages = (
        (SURVEY, len(runs.value)),
        (2 * SURVEY, FINALISTS),
        (MAX_ITERATIONS - 3 * SURVEY, LAST),
    )
    for iterations, n_runs in stages:
        leaders = runs.value.argsort(descending=True)[:n_runs]
        advanced = problem.advance(runs.subset(leaders), iterations)
        runs = runs.replace_at(leaders, advanced)
    best_run = int(runs.value.argmax())
    final = runs.subset(torch.tensor([best_run]))
    final = replace(final, converged=torch.zeros(1, dtype=torch.bool))
    final = replace(problem, is_exact=True).advance(final, POLISHING)
    runs = runs.replace_at(torch.tensor([best_run]), final)
    order = runs.mixing[best_run].argsort(descending=True)
    return Mixture(
        weights=runs.weights[best_run, order],
        mixing=runs.mixing[best_run, order],
        noise=runs.noise[best_run, order],
        gate=runs.gate[best_run].unflatten(0, (n_blocks, -1))[order],
        responsibility=runs.responsibility[best_run, order].T.contiguous(),
        log_likelihood=float(runs.log_likelihood[best_run]),
        restart_log_likelihood=runs.log_likelihood,
        converged=bool(runs.converged[best_run]),
    )


def _fit_single_model(problem: "MixtureProblem") -> Mixture:
    """Return a mixture of one block: the plain fit to all samples."""
    weight = problem.sample_weight[None]
    fit = fit_convex(
        problem.features, problem.targets, problem.loss, problem.ridge, sample_weight=weight
    )
    one_block = problem.targets.new_ones(1, 1, len(problem.features))
    start = replace(problem.start(one_block, weight), weights=fit.weights[None])
    run = replace(problem, is_exact=True).iterate(start)
    return Mixture(
        weights=run.weights[0], mixing=run.mixing[0], noise=run.noise[0],
        gate=run.gate.reshape(1, -1), responsibility=run.responsibility[0].T.contiguous(),
        log_likelihood=float(run.log_likelihood), restart_log_likelihood=run.log_likelihood,
        converged=True,
    )  # fmt: skip


def log_densities(
    outputs: Float[Tensor, "*batch n k"],
    targets: Float[Tensor, "n k"],
    loss: str,
    noise: Float[Tensor, "*batch"],
) -> Float[Tensor, "*batch n"]:
    """Return log p_k(y_i|x_i) in nats, [..., n]: of the class, or by a normal density."""
    kind = loss_named(loss)
    losses = kind.value(outputs, targets)
    if kind.has_one_class:
        return -losses
    k = targets.shape[1]
    return -losses / noise[..., None] - 0.5 * k * (2 * torch.pi * noise[..., None]).log()


def log_prior(
    mixing: Float[Tensor, "*batch K"],
    gate: Float[Tensor, "*batch Kg"],
    gate_inputs: Float[Tensor, "n g"] | None,
) -> Float[Tensor, "*batch K n"] | Float[Tensor, "*batch K 1"]:
    """Return log π_k, [..., K, n] if a gate predicts blocks from inputs, else [..., K, 1]."""
    if gate_inputs is None:
        return mixing.log()[..., None]
    return SharedFeatures(gate_inputs, mixing.shape[-1]).outputs(gate).mT.log_softmax(-2)


@result
class Runs:
    """State of R runs of the mixture's fit, all of K blocks; attributes as those of `Mixture`."""

    sample_weight: Float[Tensor, "R n"]
    responsibility: Float[Tensor, "R K n"]
    weights: Float[Tensor, "R K p"]
    mixing: Float[Tensor, "R K"]
    noise: Float[Tensor, "R K"]
    gate: Float[Tensor, "R Kg"]
    log_likelihood: Float[Tensor, " R"]  # mean over the weighted samples
    value: Float[Tensor, " R"]  # log_likelihood less the ridge's penalty: what is maximised
    converged: Bool[Tensor, " R"]

    def subset(self, keep: Tensor) -> "Runs":
        """Select the runs at `keep`."""
        return Runs(**{f.name: getattr(self, f.name)[keep] for f in fields(self)})

    def concatenate(self, added: "Runs") -> "Runs":
        """Return these runs, followed by the others."""
        return Runs(**{
            f.name: torch.cat([getattr(self, f.name), getattr(added, f.name)]) for f in fields(self)
        })

    def replace_at(self, keep: Tensor, replacements: "Runs") -> "Runs":
        """Return these runs with those at `keep` replaced."""
        values = {}
        for f in fields(self):
            values[f.name] = getattr(self, f.name).clone()
            values[f.name][keep] = getattr(replacements, f.name)
        return Runs(**values)


@result
class MixtureProblem:
    """Samples, and settings of a mixture's fit to them."""

    features: OutputFeatures
    targets: Float[Tensor, "n k"]
    loss: str
    ridge: float = 1e-4  # of every block's own mean loss, (ridge/2)‖θ_k‖², and of the gate's
    gate_inputs: Float[Tensor, "n g"] | None = None  # a column of ones among them
    is_exact: bool = False  # whether steps are Newton's where one of each class alone is cheaper
    weight: Float[Tensor, " n"] | None = None  # of the samples, mean 1; None: all are 1

    @property
    def sample_weight(self) -> Float[Tensor, " n"]:
        """The weight of each sample."""
        ones = self.targets.new_ones(len(self.features))
        return coalesce(self.weight, ones)

    def start(
        self, responsibility: Float[Tensor, "R K n"], sample_weight: Float[Tensor, "R n"]
    ) -> Runs:
        """Return R runs before their first iteration; samples of weight 0 are held out."""
        n_runs, n_blocks, _ = responsibility.shape
        gate_width = 0
        if self.gate_inputs is not None:
            gate_width = self.gate_inputs.shape[1]
        zeros = self.targets.new_zeros
        unknown = self.targets.new_full((n_runs,), -torch.inf)
        return Runs(
            sample_weight,
            responsibility,
            weights=zeros(n_runs, n_blocks, self.features.n_parameters),
            mixing=zeros(n_runs, n_blocks),
            noise=zeros(n_runs, n_blocks),
            gate=zeros(n_runs, n_blocks * gate_width),
            log_likelihood=unknown,
            value=unknown,
            converged=torch.zeros(n_runs, dtype=torch.bool),
        )

    def fit_to(
        self, responsibility: Float[Tensor, "R K n"], sample_weight: Float[Tensor, "R n"]
    ) -> Runs:
        """Return R runs with models fitted to fixed responsibilities, [R, K, n]."""
        runs = self.start(responsibility, sample_weight)
        unconverged = runs.converged
        is_slow = self.features.n_parameters > MOST_NEWTON and not self.is_exact
        for _ in range(FITTING_STEPS * (3 if is_slow else 1)):
            iterated = self.iterate(runs)
            runs = replace(iterated, responsibility=responsibility, converged=unconverged)
            if iterated.converged.all():
                break
        return runs

    def iterate(self, runs: Runs) -> Runs:
        """Return the runs after one M step and then the E step."""
        n_runs, n_blocks, _ = runs.responsibility.shape
        share = runs.sample_weight / runs.sample_weight.sum(1, keepdim=True)
        # Each sample's weight in each block, [R, K, n].
        mass = runs.responsibility * runs.sample_weight[:, None] + PRIOR * share[:, None]
        block_mass = mass.sum(2)
        mixing = block_mass / block_mass.sum(1, keepdim=True)
        stepped = self._step_models(
            self.features, self.targets, self.loss, mass.flatten(0, 1), runs.weights.flatten(0, 1)
        )
        weights = stepped.unflatten(0, (n_runs, n_blocks))
        outputs = self.features.outputs(weights)  # [R, K, n, k]
        noise = torch.ones_like(mixing)
        kind = loss_named(self.loss)
        if not kind.has_one_class:
            squares = 2 * kind.value(outputs, self.targets) * mass
            noise = squares.sum(2) / block_mass / self.targets.shape[1]
        gate = self._step_gate(runs, mass)
        joint = log_prior(mixing, gate, self.gate_inputs)
        joint = joint + log_densities(outputs, self.targets, self.loss, noise)
        log_likelihood = joint.logsumexp(1)  # [R, n]
        mean = (log_likelihood * share).sum(1)
        squared_norm = (mixing * weights.square().sum(2)).sum(1) + gate.square().sum(1)
        return Runs(
            runs.sample_weight,
            (joint - log_likelihood[:, None]).exp(),
            weights,
            mixing,
            noise,
            gate,
            log_likelihood=mean,
            value=mean - 0.5 * self.ridge * squared_norm,
            converged=(mean - runs.log_likelihood).abs() < TOLERANCE,
        )

    def _step_gate(self, runs: Runs, mass: Float[Tensor, "R K n"]) -> Float[Tensor, "R Kg"]:
        """Return γ after one step of a softmax fit to the responsibilities."""
        if self.gate_inputs is None or mass.shape[1] == 1:
            return runs.gate
        # Not mass / its sum: a sample that is held out has no mass, and 0/0 is no number.
        relative = runs.responsibility + (PRIOR / runs.sample_weight.sum(1))[:, None, None]
        features = SharedFeatures(self.gate_inputs, mass.shape[1])
        targets = (relative / relative.sum(1, keepdim=True)).mT.contiguous()
        return self._step_models(features, targets, "cross_entropy", mass.sum(1), runs.gate)

    def _step_models(
        self,
        features: OutputFeatures,
        targets: Float[Tensor, "n k"] | Float[Tensor, "B n k"],
        loss: str,
        mass: Float[Tensor, "B n"],
        start: Float[Tensor, "B p"],
    ) -> Float[Tensor, "B p"]:
        """Return the weights of B models after a Newton step of their fits, [B, p]."""
        is_cheap = features.n_parameters <= MOST_NEWTON or features.n_outputs == 1
        is_exact = self.is_exact or is_cheap or not loss_named(loss).has_one_class
        if not is_exact and isinstance(features, SharedFeatures):
            return step_by_class(features, targets, self.ridge, sample_weight=mass, start=start)
        fit = fit_convex(
            features, targets, loss, self.ridge, sample_weight=mass, start=start, max_steps=1
        )
        return fit.weights

    def advance(self, runs: Runs, iterations: int) -> Runs:
        """Return the runs after at most `iterations` of EM, fewer for those that converged."""
        for _ in range(iterations):
            open_runs = (~runs.converged).nonzero()[:, 0]
            if not len(open_runs):
                break
            runs = runs.replace_at(open_runs, self.iterate(runs.subset(open_runs)))
        return runs
