"""Settings of collecting, each default once; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Collection:
    """Defaults of what is collected of a network, and how; `collect` says what each means."""

    projection: int | str | None = "auto"
    outputs: str = "auto"
    memory: float | None = None
    precision: str = "auto"
    products: str = "auto"
    device: str = "cpu"
    allow_trained: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Computing:
    """Defaults of where chunks are computed, and where finished ones are kept."""

    store: str | None = None
    engine: str = "in_process"
    address: str | None = None
    workers: int | None = None
