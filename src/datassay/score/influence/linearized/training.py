"""The network as a linear one around its trained weights, trained again from 0.

f(x) = J(x) u, from u = 0 until its outputs are nearest to those of the network. So trained it
stands for the real training, whose optimiser, length and batches are not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.gradients.batches import outputs_of, to_model
from datassay.collect.gradients.blocks import Block
from datassay.collect.gradients.objective import Objective
from datassay.collect.gradients.recording import Gradients
from datassay.collect.layers import matrix
from datassay.score.influence.trained_network import TrainedNetwork

STEPS = 250
MOMENTUM = 0.9
ADAM_STEPS = 50
POWER_STEPS = 15
FARTHEST = 10.0  # where a training has diverged
PATIENCE = 20


def linearize(
    network: TrainedNetwork,
) -> tuple[Float[Tensor, "n k p"], Float[Tensor, "n k"], Int[Tensor, " n"]]:
    """Return the Jacobian, by blocks one after the other, outputs and labels."""
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
    """Return gradients by all blocks; 0 by those that are not used."""
    parts = []
    for block in blocks:
        columns = outputs.new_zeros(len(outputs), block.size)
        if block.name in gradients:
            columns = matrix(gradients[block.name], block.shape[0]).flatten(1)
        parts.append(columns)
    return torch.cat(parts, 1)


def output_slopes(
    loss: Objective, outputs: Float[Tensor, "b k"], y: Int[Tensor, " b"]
) -> Float[Tensor, "b k"]:
    """Return the derivative of each sample's loss by its outputs."""
    leaf = outputs.detach()[:, None].requires_grad_()
    with torch.enable_grad():
        total = loss.of_outputs(leaf, y[:, None]).sum()
    return torch.autograd.grad(total, leaf)[0][:, 0]


@dataclass(frozen=True, slots=True)
class Runs:
    """The linearised network, trained side by side on all samples and on halves.

    Attributes:
        jacobian: of the outputs at the network's weights, one after the other.
        outputs: of the network.
        y: labels.
        shares: of the samples in each run's mean loss; the first run's are all alike.
        loss: of the training.
    """

    jacobian: Float[Tensor, "nk p"]
    outputs: Float[Tensor, "n k"]
    y: Int[Tensor, " n"]
    shares: Float[Tensor, "runs n"]
    loss: Objective

    def outputs_at(self, weights: Float[Tensor, "p runs"]) -> Float[Tensor, "runs n k"]:
        """Return the outputs of all runs."""
        return (self.jacobian @ weights).view(*self.outputs.shape, -1).permute(2, 0, 1)

    def gradient(self, outputs: Float[Tensor, "runs n k"]) -> Float[Tensor, "p runs"]:
        """Return the gradient of each run's loss by its weights."""
        runs = len(outputs)
        slopes = output_slopes(self.loss, outputs.flatten(0, 1), self.y.repeat(runs)).view_as(
            outputs
        )
        slopes = slopes * self.shares[:runs, :, None]
        return self.jacobian.T @ slopes.permute(1, 2, 0).flatten(0, 1)

    def distance(self, outputs: Float[Tensor, "n k"]) -> float:
        """Return the share of the network's outputs that others miss; a constant is none."""
        difference = _centre(self.outputs - outputs).square().sum()
        return float(difference / _centre(self.outputs).square().sum())

    def largest_curvature(self) -> float:
        """Return a bound of the loss's curvature along any direction of weights."""
        vector = self.jacobian.sum(0)
        for _ in range(POWER_STEPS):
            vector = self.jacobian.T @ (self.jacobian @ (vector / vector.norm()))
        return 0.5 * float(vector.norm()) / len(self.y)


def _centre(outputs: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    return outputs - outputs.mean(1, keepdim=True)


def retrain(runs: Runs) -> Float[Tensor, "halves n k"] | None:
    """Train; return the outputs of the halves where all samples come nearest to the network."""
    # None where no step comes nearer than the first weights. Adam's steps are such that outputs
    # would be as far as the network's after ADAM_STEPS of one direction.
    start = runs.jacobian.new_zeros(runs.jacobian.shape[1], len(runs.shares))
    direction = runs.gradient(runs.outputs_at(start))[:, 0].sign()
    stride = float(runs.outputs.norm() / (runs.jacobian @ direction).norm()) / ADAM_STEPS
    ways = [
        _follow(runs, _Descent(start, 1 / runs.largest_curvature())),
        _follow(runs, _Adam(start, stride)),
    ]
    way = min(ways, key=lambda way: way[0])
    if way[0] < 1:
        return way[1]
    return None


@dataclass(slots=True)
class _Descent:
    """Descent with Nesterov's momentum; the first steps are short, as some trainings end there."""

    weights: Float[Tensor, "p runs"]
    lr: float
    velocity: Tensor | float = 0.0

    def step(self, count: int, gradient: Float[Tensor, "p runs"]) -> None:
        momentum = min(MOMENTUM, count / (count + 3))
        move = self.lr * min(1.0, 0.05 * (1 + count / 5)) * gradient
        self.velocity = momentum * self.velocity - move
        self.weights = self.weights + momentum * self.velocity - move


@dataclass(slots=True)
class _Adam:
    """Adam, with its usual decays of moments."""

    weights: Float[Tensor, "p runs"]
    lr: float
    mean: Tensor | float = 0.0
    square: Tensor | float = 0.0

    def step(self, count: int, gradient: Float[Tensor, "p runs"]) -> None:
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient.square()
        root = (self.square / (1 - 0.999**count)).sqrt() + torch.finfo(gradient.dtype).tiny
        self.weights = self.weights - self.lr / (1 - 0.9**count) * self.mean / root


def _follow(runs: Runs, optimizer: _Descent | _Adam) -> tuple[float, Float[Tensor, "halves n k"]]:
    """Return the first run's least distance on the way, and the outputs of the others there."""
    outputs = runs.outputs_at(optimizer.weights)
    nearest_outputs = outputs
    least_distance = 1.0
    nearest_step = 0
    for step in range(1, STEPS + 1):
        optimizer.step(step, runs.gradient(outputs))
        outputs = runs.outputs_at(optimizer.weights)
        distance = runs.distance(outputs[0])
        if distance < least_distance:
            least_distance = distance
            nearest_step = step
            nearest_outputs = outputs
        if not distance < FARTHEST or step > 1.3 * nearest_step + PATIENCE:
            break
    return least_distance, nearest_outputs[1:]
