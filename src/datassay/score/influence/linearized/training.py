"""The network as a linear one around its trained weights, trained again from 0.

f(x) = J(x) u, from u = 0 until its outputs are nearest to those of the network. So trained it
stands for the real training, whose optimiser, length and batches are not known: descent and Adam
are tried with all samples, and halves are trained by the one that comes nearer, for as long.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.gradients.batches import outputs_of, to_model
from datassay.collect.gradients.blocks import Block
from datassay.collect.gradients.objective import Objective
from datassay.collect.gradients.recording import Gradients
from datassay.collect.layers import matrix
from datassay.machine import best_seconds, wait_for
from datassay.plan import seconds_of
from datassay.score.influence.trained_network import TrainedNetwork

# From runs to their outputs after each step.
Training = Callable[["Runs"], Iterator[Float[Tensor, "runs n k"]]]

STEPS = 250  # at most
USUAL_STEPS = 200  # of halves
MOMENTUM = 0.9
ADAM_STEPS = 50  # that would lead as far as the network's outputs are, in one direction
POWER_STEPS = 15  # of the power method
FARTHEST = 10.0  # distance at which a training has diverged
PATIENCE = 20  # steps without getting nearer, besides 0.3 of those so far


def linearize(
    network: TrainedNetwork,
) -> tuple[Float[Tensor, "n k p"], Float[Tensor, "n k"], Int[Tensor, " n"]]:
    """Return the Jacobian of outputs by weights, blocks side by side, outputs, and labels."""
    blocks = network.per_sample.blocks
    jacobian: list[Tensor] = []
    outputs: list[Tensor] = []
    labels: list[Tensor] = []
    done = 0
    for _, stored in network.train:
        batch = to_model(stored, network.model)
        with torch.no_grad():
            f, y = network.loss.align(outputs_of(network.model, batch), network.loss.targets(batch))
        outputs.append(f[:, 0])
        labels.append(y[:, 0])
        unit = torch.eye(f.shape[2]).to(f)[:, None]
        by_output = network.per_sample.gradients(
            outputs_of, batch, lambda v, unit=unit: list(unit.expand(-1, len(v), -1))
        )
        rows = [_join_blocks(gradients, blocks, f) for gradients in by_output]
        jacobian.append(torch.stack(rows, 1))
        done += len(f)
        network.progress("linearize the network", done, network.n)
    return torch.cat(jacobian), torch.cat(outputs), torch.cat(labels)


def _join_blocks(
    gradients: Gradients, blocks: list[Block], outputs: Tensor
) -> Float[Tensor, "b p"]:
    """Return a batch's gradients with all blocks side by side; 0 where a block is unused."""
    by_block = []
    for block in blocks:
        columns = outputs.new_zeros(len(outputs), block.size)
        if block.name in gradients:
            columns = matrix(gradients[block.name], block.shape[0]).flatten(1)
        by_block.append(columns)
    return torch.cat(by_block, 1)


def output_slopes(
    loss: Objective, outputs: Float[Tensor, "b k"], y: Int[Tensor, " b"]
) -> Float[Tensor, "b k"]:
    """Return each sample's derivative of the loss by its outputs."""
    leaf = outputs.detach()[:, None].requires_grad_()
    with torch.enable_grad():
        total = loss.of_outputs(leaf, y[:, None]).sum()
    return torch.autograd.grad(total, leaf)[0][:, 0]


@dataclass(frozen=True, slots=True)
class Runs:
    """The linearised network, trained side by side on shares of the samples.

    Attributes:
        jacobian: of the outputs at the network's weights, a row per sample and output.
        outputs: of the network.
        y: labels.
        shares: of the samples in each run's mean loss.
        loss: of the training.
    """

    jacobian: Float[Tensor, "nk p"]
    outputs: Float[Tensor, "n k"]
    y: Int[Tensor, " n"]
    shares: Float[Tensor, "runs n"]
    loss: Objective

    def split_outputs(self, columns: Float[Tensor, "nk runs"]) -> Float[Tensor, "runs n k"]:
        """Return the outputs of each run, from a column per run."""
        return columns.view(*self.outputs.shape, -1).permute(2, 0, 1)

    def slopes(self, outputs: Float[Tensor, "runs n k"]) -> Float[Tensor, "nk runs"]:
        """Return the derivative of each run's weighted mean loss by its outputs."""
        runs = len(outputs)
        slopes = output_slopes(self.loss, outputs.flatten(0, 1), self.y.repeat(runs))
        weighted = slopes.view_as(outputs) * self.shares[:, :, None]
        return weighted.permute(1, 2, 0).flatten(0, 1)

    def distance(self, outputs: Float[Tensor, "n k"]) -> float:
        """Return ‖network's outputs − others‖² / ‖network's outputs‖², both centred over k."""
        difference = _centre(self.outputs - outputs).square().sum()
        return float(difference / _centre(self.outputs).square().sum())


def _centre(outputs: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    return outputs - outputs.mean(1, keepdim=True)


def retrain(runs: Runs, halves: Float[Tensor, "halves n"]) -> Float[Tensor, "halves n k"] | None:
    """Return the outputs of the linearised network trained on each half of the samples.

    By gradient descent or Adam, whichever comes nearer to the network when trained on all samples,
    and for as many steps.

    Args:
        runs: a single run, on all samples.
        halves: shares of the samples in each half's mean loss.

    Returns:
        Outputs of each half; None where no step comes nearer than the first weights.
    """
    jacobian = runs.jacobian
    kernel = None
    if len(jacobian) < jacobian.shape[1]:
        kernel = jacobian @ jacobian.T
    descent = partial(_run_descent, kernel=kernel, lr=1 / _largest_curvature(runs))
    slopes = runs.slopes(torch.zeros_like(runs.outputs)[None])
    direction = (jacobian.T @ slopes).sign()
    lr = float(runs.outputs.norm() / (jacobian @ direction).norm()) / ADAM_STEPS
    adam = partial(_run_adam, lr=lr)
    distance, step = _nearest_step(runs, descent)
    adam_distance, adam_step = _nearest_step(runs, adam)
    training = descent
    if adam_distance < distance:
        distance = adam_distance
        step = adam_step
        training = adam
    if distance >= 1:
        return None
    return next(islice(training(replace(runs, shares=halves)), step - 1, None))


def training_seconds(runs: Runs, n_halves: int) -> float:
    """Estimate the seconds that `retrain` takes, by timing a few steps of the same shapes."""
    jacobian = runs.jacobian
    total = 0.0
    kernel = None
    if len(jacobian) < jacobian.shape[1]:
        kind = str(jacobian.dtype).removeprefix("torch.")
        total = seconds_of({kind: 2.0 * len(jacobian) * jacobian.numel()})
        kernel = jacobian.new_full((len(jacobian), len(jacobian)), 1e-4)
    halves = replace(runs, shares=runs.shares.expand(n_halves, -1))
    descent: Training = partial(_run_descent, kernel=kernel, lr=1e-9)
    for training in (descent, partial(_run_adam, lr=1e-9)):
        # Tries of both seldom end early. Halves are trained by one of the two.
        total += STEPS * _step_seconds(training(runs))
        total += USUAL_STEPS / 2 * _step_seconds(training(halves))
    return total


def _step_seconds(outputs: Iterator[Float[Tensor, "runs n k"]]) -> float:
    """Return the seconds of one training step, the least of a few."""

    def take_step() -> None:
        wait_for(next(outputs).device)

    return best_seconds(take_step)


def _largest_curvature(runs: Runs) -> float:
    """Return an upper bound of the mean loss's largest curvature, by power iteration on JᵀJ."""
    # Cross-entropy's curvature in the outputs is at most 1/2.
    jacobian = runs.jacobian
    vector = jacobian.sum(0)
    for _ in range(POWER_STEPS):
        vector = jacobian.T @ (jacobian @ (vector / vector.norm()))
    return 0.5 * float(vector.norm()) / len(runs.y)


def _nearest_step(runs: Runs, training: Training) -> tuple[float, int]:
    """Return the first run's least distance to the network, and the step that reaches it."""
    least_distance = 1.0
    nearest_step = 0
    for step, outputs in enumerate(training(runs), 1):
        distance = runs.distance(outputs[0])
        if distance < least_distance:
            least_distance = distance
            nearest_step = step
        if not distance < FARTHEST or step > 1.3 * nearest_step + PATIENCE or step == STEPS:
            break
    return least_distance, nearest_step


def _run_descent(
    runs: Runs, kernel: Float[Tensor, "nk nk"] | None, lr: float
) -> Iterator[Float[Tensor, "runs n k"]]:
    """Yield the runs' outputs after each step of descent with Nesterov's momentum.

    The first steps are short, as some trainings end there. A step of weights changes outputs by
    J Jᵀ of the slopes, so that no weights are needed; kernel: J Jᵀ, where it is smaller than J.
    """
    jacobian = runs.jacobian
    outputs = jacobian.new_zeros(len(jacobian), len(runs.shares))
    velocity = torch.zeros_like(outputs)
    for step in count(1):
        slopes = runs.slopes(runs.split_outputs(outputs))
        if kernel is None:
            change = jacobian @ (jacobian.T @ slopes)
        else:
            change = kernel @ slopes
        momentum = min(MOMENTUM, step / (step + 3))
        move = lr * min(1.0, 0.05 * (1 + step / 5)) * change
        velocity = momentum * velocity - move
        outputs = outputs + momentum * velocity - move
        yield runs.split_outputs(outputs)


def _run_adam(runs: Runs, lr: float) -> Iterator[Float[Tensor, "runs n k"]]:
    """Yield the runs' outputs after each step of Adam with step size lr."""
    jacobian = runs.jacobian
    weights = jacobian.new_zeros(jacobian.shape[1], len(runs.shares))
    outputs = torch.zeros_like(runs.outputs).expand(len(runs.shares), -1, -1)
    adam = torch.optim.Adam([weights], lr, eps=torch.finfo(weights.dtype).tiny)
    while True:
        weights.grad = jacobian.T @ runs.slopes(outputs)
        adam.step()
        outputs = runs.split_outputs(jacobian @ weights)
        yield outputs
