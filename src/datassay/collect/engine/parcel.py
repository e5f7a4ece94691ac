"""Shared values packed for another process: a small pickle, and large arrays that it maps.

Arrays travel beside the head and are sent once a pass, whatever the number of pieces; the libraries
that move them (joblib, Ray) let all workers of a machine look at one copy.
"""

import io
import pickle
import uuid
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import cloudpickle
import numpy as np
import torch
from torch import Tensor, nn

from datassay.errors import SettingError
from datassay.models.user_code import brief

# Arrays of fewer bytes travel in the pickle.
LARGE = 2**16
# The parcel that this worker unpacked last, by its name; it serves many pieces.
_HELD: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Parcel:
    """The facts about a pass that travel with its arrays."""

    name: str  # that no other has
    threads: int  # that each piece is computed with
    machine: dict[str, str]  # facts that must be equal for results to be bit-identical


def parcel(function: Callable, shared: Any) -> tuple[Parcel, list[np.ndarray]]:
    """Return a job's head (name, threads, machine) and its function and shared values, packed."""
    head = Parcel(uuid.uuid4().hex, torch.get_num_threads(), _describe_machine())
    try:
        return head, pack((function, shared))
    except Exception as error:  # whatever a user's object raises
        raise SettingError(_describe_failure(error)) from error


def compute(head: Parcel, piece: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return a piece's result, packed, in a worker; raise if this machine may round otherwise."""
    torch.set_num_threads(head.threads)
    if head.name not in _HELD:
        facts = _describe_machine()
        if facts != head.machine:
            raise SettingError(
                f"workers must be machines of one kind, so that the bits are the same; got {facts} "
                f"for {head.machine}. Use nodes alike, with the same environment."
            )
        _HELD.clear()  # never two at a time
        try:
            _HELD[head.name] = unpack(arrays)
        except Exception as error:  # whatever the import of a user's module raises
            raise SettingError(_describe_failure(error)) from error
    function, shared = _HELD[head.name]
    return pack(function(shared, piece))


def _describe_failure(error: Exception) -> str:
    """Return a message for an error in packing or unpacking, with its remedy."""
    return (
        f"the model must be one that workers can be sent; that raised {brief(error)} Keep open "
        "files and locks out of it, install the modules that it imports, or use engine "
        "'in_process'."
    )


def pack(value: Any) -> list[np.ndarray]:
    """Return a value's pickle as an array, and its large arrays unpickled beside it."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    return [np.frombuffer(file.getbuffer(), np.uint8), *pickler.arrays]


def unpack(arrays: Sequence[np.ndarray]) -> Any:
    """Rebuild the packed value, which uses the arrays without copying them."""
    return _Unpickler(arrays[0].tobytes(), arrays[1:]).load()


class _Pickler(cloudpickle.CloudPickler):
    """A pickler that leaves large arrays out, but not those in networks, which may change them."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file)
        self.arrays: list[np.ndarray] = []

    def persistent_id(self, obj: Any) -> tuple[type, int] | None:
        """Keep a large array out of the pickle; return its type and position, or None."""
        if type(obj) not in {Tensor, np.ndarray} or obj.dtype == object or obj.nbytes < LARGE:
            return None
        if isinstance(obj, Tensor) and (obj.device.type != "cpu" or obj.requires_grad):
            return None
        self.arrays.append(obj.numpy() if isinstance(obj, Tensor) else obj)
        return type(obj), len(self.arrays) - 1

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, nn.Module):
            return pickle.loads, (cloudpickle.dumps(obj),)
        return super().reducer_override(obj)


class _Unpickler(pickle.Unpickler):
    def __init__(self, head: bytes, arrays: Sequence[np.ndarray]):
        super().__init__(io.BytesIO(head))
        self._arrays = arrays

    def persistent_load(self, pid: tuple[type, int]) -> Any:
        """Return the array or tensor that stands under a number beside the pickle."""
        kind, number = pid
        array = self._arrays[number]
        if kind is np.ndarray:
            return array
        with warnings.catch_warnings():
            # Ray's arrays are read-only, which shared values are by agreement.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(array)


def _describe_machine() -> dict[str, str]:
    return {
        "processor": torch.backends.cpu.get_cpu_capability(),
        **{name: version(name) for name in ("datassay", "torch", "numpy")},
    }
