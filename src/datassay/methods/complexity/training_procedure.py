"""Algorithm 1: test error of students trained on N samples of each teacher, in chunks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.methods.complexity.teacher_student import (
    StudentRecipe,
    draw_networks,
    network_outputs,
    train_students,
)
from datassay.results import result

# Pre-activations per chunk: 4 MiB in float32, so that passes over them stay in cache.
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Teachers:
    """Random teacher networks of d inputs and m units."""

    # Each teacher and each N has its own stream: a result does not depend on what else is computed.

    n_inputs: int
    width: int
    seed: int = 0

    def weights(self, teacher: int) -> Float[np.ndarray, "d m"]:
        """Return W* of one teacher, [d, m]."""
        return draw_networks(self.stream(teacher, 0), 1, self.n_inputs, self.width)[0]

    def stream(self, teacher: int, n_samples: int) -> np.random.Generator:
        """Return the random generator of one teacher's trial with N samples, or with 0 its own."""
        return np.random.default_rng([self.seed, self.n_inputs, self.width, teacher, n_samples])


def student_losses(
    teachers: Teachers,
    teacher_idx: Sequence[int],
    n_samples: int,
    n_students: int,
    recipe: StudentRecipe,
) -> Float[np.ndarray, "C T"]:
    """Return the test error 1 − R² of T students of each of C teachers, [C, T].

    Each teacher draws N training and N (or n_test) test samples, standard normal, and T students.

    Returns:
        Mean squared error on the test samples over the variance of the teacher's outputs on them
        (or of its units, as the recipe says). Infinite for a single test sample, which has no
        variance, and where training diverged. Source: S3 Algorithm 1 and eq. (2.9).
    """
    loss = np.empty((len(teacher_idx), n_students))
    trials = [_draw_trial(teachers, k, n_samples, n_students, recipe) for k in teacher_idx]
    variance = np.array([[t.variance or np.nan] for t in trials])
    units = recipe.student_width or teachers.width
    for teacher_rows, students in _split_work(len(teacher_idx), n_students, n_samples * units):
        chunk = trials[teacher_rows]
        start = torch.stack([t.start[students] for t in chunk])
        x = torch.stack([t.x for t in chunk])
        y = torch.stack([t.y for t in chunk])
        trained = train_students(start, x, y, recipe)
        outputs = network_outputs(torch.stack([t.x_test for t in chunk]), trained).double()
        y_test = torch.stack([t.y_test for t in chunk]).double()[:, None]  # [C, 1, n_test]
        squared_error = (outputs - y_test).square().mean(2).numpy()
        loss[teacher_rows, students] = squared_error / variance[teacher_rows]
    loss[~np.isfinite(loss)] = np.inf
    return loss


@result
class _Trial:
    """Students before training, samples to train and test them on, and the test error's divisor."""

    start: Float[Tensor, "T d m"]
    x: Float[Tensor, "n d"]
    y: Float[Tensor, " n"]
    x_test: Float[Tensor, "n_test d"]
    y_test: Float[Tensor, " n_test"]
    variance: float


def _draw_trial(
    teachers: Teachers, teacher: int, n: int, n_students: int, recipe: StudentRecipe
) -> _Trial:
    """Return random students, and a teacher's labelled samples to train and to test them."""
    d = teachers.n_inputs
    weights = teachers.weights(teacher)
    rng = teachers.stream(teacher, n)
    x = rng.standard_normal((n + (recipe.n_test or n), d))
    y = np.maximum(x @ weights, 0).sum(1) / np.sqrt(teachers.width)
    start = draw_networks(rng, n_students, d, recipe.student_width or teachers.width)
    if recipe.variance == "outputs":
        variance = y[n:].var()
    else:
        # The mean over units of V[max(wᵀx, 0)], x standard normal, which is ‖w‖² (1/2 − 1/2π).
        variance = np.square(weights).sum(0).mean() * (0.5 - 0.5 / np.pi)
    start, x, y = (torch.as_tensor(values).to(recipe.dtype) for values in (start, x, y))
    return _Trial(start, x[:n], y[:n], x_test=x[n:], y_test=y[n:], variance=float(variance))


def _split_work(
    n_teachers: int, n_students: int, n_activations: int
) -> Iterator[tuple[slice, slice]]:
    """Yield slices of teachers and of students that fit into memory together."""
    chunk_students = min(n_students, max(1, CHUNK // n_activations))
    chunk_teachers = max(1, CHUNK // (n_activations * n_students))
    for i in range(0, n_teachers, chunk_teachers):
        for j in range(0, n_students, chunk_students):
            yield slice(i, i + chunk_teachers), slice(j, j + chunk_students)
