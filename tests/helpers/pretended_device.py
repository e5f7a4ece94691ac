"""A device that nobody has: tensors report it, and the processor computes.

Memory of the device is main memory under another name, which DLPack gives it. As on CUDA, mixing
devices and `.numpy()` raise. Copies between the devices, and values that Python waits for, are
counted.
"""

import ctypes
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree, backend_registration
from torch.utils.dlpack import from_dlpack, to_dlpack

NAME = "pretended"
IN_MAIN_MEMORY, ON_DEVICE = 1, 12  # kDLCPU; kDLExtDev, which is torch's PrivateUse1
SENT, FETCHED, WAITED, SYNCHRONIZED = "sent", "fetched", "waited for", "synchronized"
COPIES = {"copy_", "_copy_from", "_copy_from_and_resize"}
ROWS = {"index", "index_put", "index_put_", "_index_put_impl_"}  # take indices in main memory
# Whose result or its shape Python must know before it goes on.
NEEDED_NOW = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "unique_dim"}
MIXED = "Expected all tensors to be on the same device, but {} got some on {} and some on the cpu"
CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
IN_TORCH = [torch.library.Library(*a) for a in (("_", "IMPL"), ("aten", "IMPL", "PrivateUse1"))]
counts: Counter[str] = Counter()
lines: Counter[tuple[str, str]] = Counter()  # the same by the line of datassay


class Backend(backend_registration._DummyBackendModule):
    def synchronize(self) -> None:
        count(SYNCHRONIZED)


def install() -> None:
    """Make the device known to torch, for the rest of this process."""
    if hasattr(torch, NAME):
        return
    backend_registration._setup_privateuseone_for_python_backend(NAME, Backend())
    IN_TORCH[0].fallback(compute, "PrivateUse1")
    IN_TORCH[1].impl("convolution_overrideable", convolve)
    IN_TORCH[1].impl("convolution_backward_overrideable", convolve_back)
    deep_copy: Callable[..., Tensor] = Tensor.__deepcopy__
    move: Callable[..., nn.Module] = nn.Module.to

    def copy_tensor(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
        if not is_there(tensor) or id(tensor) in memo:  # torch has no storage of this device
            return deep_copy(tensor, memo)
        copied = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        return memo.setdefault(id(tensor), copied)

    def move_tied(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        """Move a network; torch unties shared weights of devices that it does not know."""
        places = [(m._parameters, name) for m in module.modules() for name in m._parameters]
        before = [held[name] for held, name in places]
        move(module, *args, **kwargs)
        first = {id(p): i for i, p in reversed(list(enumerate(before)))}
        for (held, name), p in zip(places, before, strict=True):
            original, name_there = places[first[id(p)]]
            held[name] = original[name_there]
        return module

    Tensor.__deepcopy__, nn.Module.to = copy_tensor, move_tied


def rename_memory(tensor: Tensor, device_type: int) -> Tensor:
    """Return a tensor of the same memory on the other device."""
    capsule = to_dlpack(tensor.detach())
    find = ctypes.pythonapi.PyCapsule_GetPointer
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # It begins with void *data and int32_t device_type.
    place = find(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)
    ctypes.c_int32.from_address(place).value = device_type
    return from_dlpack(capsule)


def is_there(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.device.type == NAME


def count(kind: str) -> None:
    counts[kind] += 1
    frame = sys._getframe()
    while frame is not None and "/src/datassay/" not in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is not None:
        file = frame.f_code.co_filename.rsplit("/src/datassay/", 1)[1]
        lines[kind, f"{file}:{frame.f_lineno}"] += 1


def check_devices(name: str, tensors: list[Tensor]) -> None:
    """Count what moves; raise where CUDA would, as single numbers alone may lie elsewhere."""
    if name in COPIES:
        source, target = tensors if name != "copy_" else tensors[::-1]
        if source.device != target.device:
            count(SENT if is_there(target) else FETCHED)
        return
    here = [t for t in tensors if not is_there(t) and t.ndim]
    if name in ROWS and is_there(tensors[0]):
        for _ in here:
            count(SENT)
    elif here and len(here) < len(tensors):
        raise RuntimeError(MIXED.format(name, NAME))
    if name in NEEDED_NOW or ("put" in name and any(t.dtype == torch.bool for t in tensors[1:])):
        count(WAITED)


def compute(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operation of the device on the processor, in the same memory."""
    name = operation._schema.name.removeprefix("aten::")
    if name == "as_strided":
        return operation.redispatch(CPU, *args, **kwargs)
    types = [str(argument.type) for argument in operation._schema.arguments]
    args = tuple(  # numbers come as numbers also where a tensor is due
        torch.from_numpy(np.array(x)) if of == "Tensor" and isinstance(x, int | float) else x
        for x, of in zip(args, types, strict=False)
    )
    leaves, spec = _pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    check_devices(name, tensors)
    in_memory = {id(t): in_main_memory(t) for t in tensors if is_there(t)}
    there = {id(in_memory[id(t)]): t for t in tensors if is_there(t)}
    devices = {torch.device(NAME): "cpu", torch.device(NAME, 0): "cpu"}
    moved = [
        devices.get(x, x) if isinstance(x, torch.device) else in_memory.get(id(x), x)
        for x in leaves
    ]
    args, kwargs = _pytree.tree_unflatten(moved, spec)
    if name.startswith("_copy_from"):
        args[1].copy_(args[0])
        return tensors[1]
    if name == "_efficientzerotensor":  # which has no memory
        operation = torch.ops.aten.zeros.default
    results = operation(*args, **kwargs)
    if name == "_local_scalar_dense":
        return results
    for alias in in_memory.values():
        if alias.shape != there[id(alias)].shape:
            there[id(alias)].data = rename_memory(alias, ON_DEVICE)
    is_view = any(r.alias_info is not None for r in operation._schema.returns)
    base = tensors[0] if is_view and tensors else None
    return _pytree.tree_map(lambda result: on_device(result, base, there), results)


def in_main_memory(tensor: Tensor) -> Tensor:
    # One without values may be resized.
    empty = torch.empty_like(tensor, device="cpu") if not tensor.numel() else None
    return rename_memory(tensor, IN_MAIN_MEMORY) if empty is None else empty


def on_device(result: Any, base: Tensor | None, there: dict[int, Tensor]) -> Any:
    """Return a result as the device's: what was written into, a view of `base`, or a new tensor."""
    if not isinstance(result, Tensor) or is_there(result) or id(result) in there:
        return there.get(id(result), result)
    if base is None or not result.numel():
        return rename_memory(result, ON_DEVICE)
    shift = (result.data_ptr() - base.data_ptr()) // result.element_size()
    strided, place = torch.ops.aten.as_strided.default, base.storage_offset() + shift
    return strided.redispatch(CPU, base, result.shape, result.stride(), place)


def convolve(*args: Any) -> Tensor:
    return compute(torch.ops.aten.convolution.default, *args)


def convolve_back(gradient: Tensor, x: Tensor, weight: Tensor, *args: Any) -> Any:
    backward = torch.ops.aten.convolution_backward.default
    return compute(backward, gradient, x, weight, None, *args)
