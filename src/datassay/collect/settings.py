"""The settings of collecting, each default once; nothing heavy is imported here."""

import re
from dataclasses import dataclass

from datassay.errors import SettingError
from datassay.rules import one_of

OUTPUTS = ("auto", "joint", "averaged", "mixed", "landmarks")
PRODUCTS = ("auto", "float64", "float32", "bfloat16")
LOSSES = ("cross_entropy", "mse", "bce", "next_token")  # of a trained network
ENGINES = ("in_process", "processes", "ray")


def check_device_name(device: str) -> None:
    """Raise SettingError for a device that is no "cpu", "cuda" or "cuda:1"."""
    if not re.fullmatch(r"cpu(:0)?|cuda(:\d{1,3})?", device):
        raise SettingError(
            f"device must be 'cpu', 'cuda' or one of several as 'cuda:0'; got {device!r}. Others "
            "lack float64."
        )


def check_engine(name: str, workers: int | None, address: str | None) -> None:
    """Check the settings of `engine_named` without starting anything."""
    one_of("engine", name, ENGINES)
    if address is not None and name != "ray":
        raise SettingError(f"address belongs to engine 'ray'; got {address} with {name!r}.")
    if workers is not None and (name == "in_process" or workers < 1):
        raise SettingError(
            f"workers must be at least 1, for engine 'processes' or 'ray'; got {workers} for "
            f"{name!r}."
        )


@dataclass(frozen=True)
class Collection:
    """What is collected from a network, and how.

    Attributes:
        projection: "auto": exact where it fits; None: exact; int: features a parameter tensor.
        outputs: "joint", "averaged", "mixed" or "auto".
        memory: bytes to stay within; None: what is free.
        precision: of the Jacobians: "auto", "float64" or "float32".
        products: precision of products over all rows: "auto", "float64", "float32" or "bfloat16".
        device: of Jacobians and those products, "cpu", "cuda" or "cuda:1".
        allow_trained: linearise even at weights that have seen these labels, with a warning.
        seed: of the projection.
    """

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
    """Where chunks are computed, and where finished ones are kept.

    Attributes:
        store: folder or fsspec URL that keeps finished chunks; None keeps nothing.
        engine: "in_process", "processes" or "ray".
        address: of a running Ray cluster; None: none.
        workers: of the engine; None: as many as it has.
    """

    store: str | None = None
    engine: str = "in_process"
    address: str | None = None
    workers: int | None = None
