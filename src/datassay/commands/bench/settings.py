"""What `datassay bench` can be told."""

from __future__ import annotations

from dataclasses import dataclass

from datassay.data.settings import Loading
from datassay.setting import setting


@dataclass(frozen=True)
class BenchSettings:
    """What the job can be told; every default is what `datassay bench` does."""

    cases: tuple[str, ...] = setting(
        (),
        "leave-one-out, retraining, fidelity, labels, weights, polynomial (default: all).",
        argument=True,
    )
    seed: int = setting(Loading.seed, "Of data, networks and noise.")
    command: str = ""
