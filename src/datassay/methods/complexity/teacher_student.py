"""Teacher and student networks; the students of several teachers train together.

f(x) = (1/√m) Σ_j max(w_jᵀ x, 0), with fixed output weights. (S3 eq. 2.1)
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.errors import SettingError
from datassay.rules import integer, one_of, positive

# From this width on the last axis in memory is the units of a student, below it the students.
WIDE = 64
NAMES = {
    "optimizer": ("adam", "sgd"),
    "reduction": ("mean", "sum"),
    "divisor": ("root", "width"),
    "variance": ("outputs", "units"),
    "precision": ("float32", "float64"),
}
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # torch.optim.Adam's


@dataclass(frozen=True, slots=True)
class StudentRecipe:
    """How a student is trained and tested.

    Attributes:
        lr: η, step size.
        epochs: E.
        batch_size: B; ⌊N/B⌋ batches an epoch, drawn anew; None is N, one update an epoch.
        student_width: m' of the students (S3 eq. 2.2); None is m, the teacher's.
        optimizer: "adam", or "sgd" for plain gradient descent.
        reduction: of the squared error over the training set: "mean" (S3 eq. 2.2) or "sum"
            (eq. 2.7). Adam gives the same with both; plain descent with step 5e-3 and 300 epochs
            recovers no teacher with "mean", and most with "sum".
        divisor: of the sum over the units, in teacher and student: "root" is √m (eq. 2.1),
            "width" is m (eq. 2.7). R² is the same; the gradient is m times smaller, which slows
            plain descent but not Adam.
        n_test: fresh samples that a student is tested on; None is N, the number it was trained
            on, as in S3.
        variance: divisor of the test error: "outputs", the variance of the teacher's outputs on
            the test samples, for 1 − R² as in S3; or "units", the mean variance of one unit,
            which eq. (2.6) equates with that of the outputs and which does not grow with width.
        precision: "float32" or "float64", of samples and weights.
    """

    lr: float = 5e-3
    epochs: int = 300
    optimizer: str = "adam"
    reduction: str = "mean"
    divisor: str = "root"
    n_test: int | None = None
    variance: str = "outputs"
    precision: str = "float32"
    batch_size: int | None = None
    student_width: int | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Of samples and weights."""
        return getattr(torch, self.precision)


def check_recipe(recipe: StudentRecipe) -> None:
    """Raise if a number is not positive, or a name is unknown."""
    for name in ("lr", "epochs", "n_test"):
        value = getattr(recipe, name)
        if value is not None:
            positive(name, value)
    for name in ("batch_size", "student_width"):
        value = getattr(recipe, name)
        if value is not None:
            integer(name, value)
    if recipe.student_width and recipe.divisor == "width":
        raise SettingError(
            "divisor must be 'root' where student_width is given, since each network is divided by "
            "the root of its own width (S3 eq. 2.2); got 'width'."
        )
    for name, allowed in NAMES.items():
        one_of(name, getattr(recipe, name), allowed)


def draw_networks(
    rng: np.random.Generator, n_networks: int, n_inputs: int, width: int
) -> Float[np.ndarray, "S d m"]:
    """Draw random networks: every weight uniform in ±1/√d.

    Args:
        rng: the stream of random numbers.
        n_networks: S.
        n_inputs: d.
        width: m.

    Returns:
        Weights [S, d, m].

    Source: S3 §2.1.
    """
    return rng.uniform(-1, 1, (n_networks, n_inputs, width)) / np.sqrt(n_inputs)


def network_outputs(
    x: Float[Tensor, "C n d"], weights: Float[Tensor, "C S d m"]
) -> Float[Tensor, "C S n"]:
    """Return the outputs of S networks on each of C sets of inputs, S3 eq. (2.1)."""
    width = weights.shape[3]
    by_network = [(x @ w).relu_().sum(2) for w in weights.unbind(1)]  # [C, n] a network
    return torch.stack(by_network, 1) / width**0.5


@torch.no_grad()
def train_students(
    start: Float[Tensor, "C T d m"],
    x: Float[Tensor, "C n d"],
    y: Float[Tensor, "C n"],
    recipe: StudentRecipe,
) -> Float[Tensor, "C T d m"]:
    """Train T students on each of C training sets together.

    The loss of a student is (1/n) Σ_i (y_i − f(x_i))² (S3 eq. 2.2), times n with reduction "sum",
    over m with divisor "width" (eq. 2.7).

    Args:
        start: initial weights of the students.
        x: the training inputs.
        y: the teachers' outputs on them.
        recipe: optimizer, lr, epochs, batches, reduction and divisor.

    Returns:
        The students' weights after the last epoch.

    Cost: 4 n d m operations per student and epoch, in two products, and four passes over n m
    values; C T n m values of memory (the caller keeps them in cache) and 5 C T d m.
    Source: S3 Algorithm 1. Deviations: Adam, unless the recipe says otherwise; all students have
    the same batches; N, where B is larger.
    """
    n = x.shape[1]
    n_units = start.shape[3]
    batch_size = min(recipe.batch_size or n, n)
    axes = (0, 2, 3, 1)  # C, d, m, T
    if n_units >= WIDE:
        axes = (0, 2, 1, 3)  # C, d, T, m
    # Always a copy: start stays the caller's.
    w = start.permute(axes).clone(memory_format=torch.contiguous_format)
    if recipe.optimizer == "adam":
        update = _Adam(w, recipe.lr)
    else:
        update = _Descent(w, recipe.lr)
    scale = _compute_loss_scale(recipe, batch_size, n_units)
    gradient = _Gradient(w, x[:, :batch_size], y[:, :batch_size], axes.index(3), scale)
    draw = torch.Generator().manual_seed(0)
    for _ in range(recipe.epochs):
        if batch_size == n:
            update(gradient())
            continue
        order = torch.randperm(n, generator=draw)
        for rows in order[: n // batch_size * batch_size].split(batch_size):
            gradient.take(x[:, rows], y[:, rows])
            update(gradient())
    return w.permute([axes.index(axis) for axis in range(4)])


def _compute_loss_scale(recipe: StudentRecipe, n: int, width: int) -> float:
    """Return the factor of the loss: Σ_i (y_i − f(x_i))² with outputs of eq. (2.1) times this."""
    scale = 1.0
    if recipe.reduction == "mean":
        scale = 1 / n
    if recipe.divisor == "width":
        return scale / width
    return scale


class _Gradient:
    """Gradient of scale · Σ_i (y_i − f(x_i))² of every student, in reused buffers.

    The samples' axis comes first and the students' (for wide networks the units') last, so that
    every pass over [C, n, T · m] runs along long rows, whatever n is.
    """

    def __init__(self, w: Tensor, x: Tensor, y: Tensor, unit_axis: int, scale: float):
        n_sets, n, _ = x.shape
        self.axis = unit_axis
        n_units = w.shape[unit_axis]
        self.w = w.flatten(2)
        self.units = n_units
        self.grad = torch.empty_like(w)
        self.z = w.new_empty(n_sets, n, w.shape[2] * w.shape[3])
        self.unflat = self.z.unflatten(2, w.shape[2:])
        student_axis = 5 - unit_axis  # one is 2, the other 3
        self.residual = w.new_empty(n_sets, n, w.shape[student_axis])
        self.unit_residual = self.residual.unsqueeze(unit_axis).expand_as(self.unflat)
        self.slope = 2 / n_units * scale
        self.take(x, y)

    def take(self, x: Tensor, y: Tensor) -> None:
        """Set the batch, of the same size as the first."""
        self.x = x
        self.xt = x.mT.contiguous()
        # z is not divided by √m: the targets and the slope include the factor.
        self.y = (y * self.units**0.5).unsqueeze(2)

    def __call__(self) -> Tensor:
        """Return the gradient at the present weights, shaped like them, in a buffer."""
        torch.bmm(self.x, self.w, out=self.z)
        self.z.relu_()
        torch.sum(self.unflat, self.axis, out=self.residual)
        self.residual.sub_(self.y).mul_(self.slope)
        # In place: the residual where a unit is active, 0 elsewhere.
        torch.ops.aten.threshold_backward.grad_input(
            self.unit_residual, self.unflat, 0, grad_input=self.unflat
        )
        torch.bmm(self.xt, self.z, out=self.grad.flatten(2))
        return self.grad


class _Adam:
    """torch.optim.Adam's update of one tensor, without its overhead per step."""

    def __init__(self, w: Tensor, lr: float):
        self.w = w
        self.lr = lr
        self.step = 0
        self.mean = torch.zeros_like(w)
        self.square = torch.zeros_like(w)
        self.root = torch.zeros_like(w)

    def __call__(self, gradient: Tensor) -> None:
        self.step += 1
        self.mean.lerp_(gradient, 1 - BETA1)
        self.square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        torch.sqrt(self.square, out=self.root)
        self.root.div_((1 - BETA2**self.step) ** 0.5).add_(EPSILON)
        self.w.addcdiv_(self.mean, self.root, value=-self.lr / (1 - BETA1**self.step))


class _Descent:
    """Plain gradient descent."""

    def __init__(self, w: Tensor, lr: float):
        self.w = w
        self.lr = lr

    def __call__(self, gradient: Tensor) -> None:
        self.w.add_(gradient, alpha=-self.lr)
