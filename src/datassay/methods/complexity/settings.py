"""Settings of sample complexity and learning curves, each default once; nothing heavy imported."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recovery:
    """How many samples recover a teacher: what is searched for.

    Attributes:
        n_teachers: independent teacher networks per size.
        n_students: T, random starts a teacher and N.
        depth: bisections after the doubling; 0 is Algorithm 2.
        max_samples: the largest N that is tried; the doubling stops there.
        recovery_r2: L, the R² on fresh samples from which on a student has recovered.
        probability: the share of students that must.
        seed: of everything random.
    """

    n_teachers: int = 10
    n_students: int = 100
    depth: int = 4
    max_samples: int = 4096
    recovery_r2: float = 0.95
    probability: float = 0.5
    seed: int = 0


@dataclass(frozen=True)
class Curve:
    """The learning curve of a model on growing parts of the data, and what it forecasts.

    Attributes:
        sizes: numbers of training samples; None: eight, up to all of them.
        level: of the intervals.
        draws: of the bootstrap.
        store: folder that keeps the errors of every finished size; None keeps nothing.
        seed: of the orders and draws.
    """

    sizes: tuple[int, ...] | None = None
    level: float = 0.9
    draws: int = 1000
    store: str | None = None
    seed: int = 0
