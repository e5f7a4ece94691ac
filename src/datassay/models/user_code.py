"""Runs somebody's own code: an error becomes one line, and torch's settings stay as they were."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from datassay.errors import DatassayError, ModelError, printable
from datassay.machine import available_memory, out_of_memory


@contextmanager
def user_code(
    message: Callable[[str], str], kind: type[DatassayError] = ModelError
) -> Iterator[None]:
    """Run the user's code inside; raise any error as `kind`, with a message for the user."""
    # message: turns `brief(error)` into the message. What the code changes in torch for the whole
    # process (precision and device of new tensors, gradients, threads, deterministic algorithms,
    # the state of the generator) is restored.
    try:
        with _restore_settings():
            yield
    except (DatassayError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise kind(_explain_memory(error) or message(brief(error))) from error


def brief(error: BaseException) -> str:
    """Return an error's type and first line, without terminal control sequences."""
    try:
        text = str(error).strip().splitlines() or ["no message"]
    except Exception:  # noqa: BLE001 a user's error may fail to say what it is
        text = ["no message"]
    return printable(f"{type(error).__name__}: {text[0].rstrip('.')}.")


def _explain_memory(error: BaseException) -> str:
    """Return the message if an error means that memory ran out, else ""."""
    if not out_of_memory(error):
        return ""
    return (
        f"the network needs more memory than the machine gives; {brief(error)} "
        f"{available_memory() / 1e9:.1f} GB are free. Make the network, its inputs or its "
        "number of outputs smaller."
    )


@contextmanager
def _restore_settings() -> Iterator[None]:
    """Restore torch's process-wide settings and its generator's state at the end."""
    previous = _read_settings()
    generator = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(generator)
        current = _read_settings()
        for setter, value in previous.items():
            if current[setter] != value:
                setter(value)


def _read_settings() -> dict[Callable[[Any], object], Any]:
    """Return setter → present value of each process-wide setting of torch."""
    return {
        torch.set_default_dtype: torch.get_default_dtype(),
        torch.set_default_device: torch.get_default_device(),
        torch.set_grad_enabled: torch.is_grad_enabled(),
        torch.set_num_threads: torch.get_num_threads(),
        torch.set_deterministic_debug_mode: torch.get_deterministic_debug_mode(),
    }
