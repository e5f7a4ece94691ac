"""The settings of training; nothing heavy is imported here."""

from dataclasses import dataclass

# The training of a network for its features or predictions: samples a batch, epochs, and the
# limits of its updates.
BATCH, EPOCHS = 64, 20
FEWEST_UPDATES, MOST_UPDATES = 500, 3000
# How losses of samples are joined. The sum that a mean loss stands for has n times its weight
# decay, and (n − 1) times without a sample; "mean_same_penalty" keeps n times there, as S1's code.
REDUCTIONS = ("sum", "mean", "mean_same_penalty")


@dataclass(frozen=True)
class Recipe:
    """The settings of networks' training.

    Attributes:
        optimizer: "adam" or "sgd".
        lr: its step size, of the loss averaged over a batch.
        steps: parameter updates, the same for every subset size.
        batch_size: samples an update; None is full-batch.
        loss: "cross_entropy" (one output: binary), "mse" (½ squared error, summed over outputs),
            "bce" (several labels per sample, each 0 or 1: their cross-entropies summed), or "auto":
            by the task.
        weight_decay: λ of (λ/2)‖w − w₀‖² added to the averaged loss: towards the starting weights.
        precision: "float32" or "float64", of inputs and weights while they train.
    """

    optimizer: str = "adam"
    lr: float = 1e-3
    steps: int = 300
    batch_size: int | None = 64
    loss: str = "auto"
    weight_decay: float = 0.0
    precision: str = "float32"


def network_recipe(n_samples: int) -> Recipe:
    """Return the usual training of a network on n samples, in batches."""
    return Recipe(steps=network_updates(n_samples), batch_size=BATCH)


def network_updates(n_samples: int) -> int:
    """Return the number of updates of `network_recipe` for n samples."""
    return min(max(EPOCHS * n_samples // BATCH, FEWEST_UPDATES), MOST_UPDATES)


@dataclass(frozen=True)
class Descent:
    """Full-batch gradient descent: updates, and λ of (λ/2)‖w − w₀‖² added to the reduced loss."""

    steps: int = 2000
    weight_decay: float = 0.0
