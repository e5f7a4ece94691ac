"""Choose where chunks are computed."""

from __future__ import annotations

from datassay.collect.engine.base import IN_PROCESS, Engine
from datassay.collect.settings import Computing
from datassay.errors import SettingError
from datassay.rules import one_of

ENGINES = ("in_process", "processes", "ray")


def engine_named(
    name: str, *, workers: int | None = Computing.workers, address: str | None = Computing.address
) -> Engine:
    """The engine of this name.

    Args:
        name: "in_process", "processes" (of this machine, by joblib) or "ray".
        workers: pieces at a time, at least 1; None: as many as the cores allow at this process's
            number of threads a piece.
        address: of a running Ray cluster, as `ray.init` takes it; None: the one that the process
            is connected to or RAY_ADDRESS names, else one of its own on this machine.

    Returns:
        The engine. What it starts ends with this process.

    Raises:
        SettingError: the name is unknown, workers or address does not belong to it, or Ray is not
            installed or cannot be reached.
    """
    check_engine(name, workers, address)
    if name == "processes":
        from datassay.collect.engine.processes import Processes

        return Processes(workers)
    if name == "ray":
        from datassay.collect.engine.ray_cluster import RayCluster

        return RayCluster(workers, address)
    return IN_PROCESS


def check_engine(name: str, workers: int | None, address: str | None) -> None:
    """Check the settings of `engine_named` without starting anything."""
    one_of("engine", name, ENGINES)
    if address is not None and name != "ray":
        raise SettingError(f"address belongs to engine 'ray'; got {address} beside {name!r}.")
    if workers is not None and (name == "in_process" or workers < 1):
        raise SettingError(
            f"workers must be at least 1, for engine 'processes' or 'ray'; got {workers} for "
            f"{name!r}."
        )
