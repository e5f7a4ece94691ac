"""Fingerprints: what results depend on, as plain JSON values that a manifest keeps.

Of a model's code: everything beside its weights that decides what it computes.
"""

from __future__ import annotations

import builtins
import enum
import functools
import hashlib
import json
import re
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import PurePath
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from datassay.collect.bytecode import attributes_read, described, names_used, names_written
from datassay.collect.jacobian.suitable import unwrapped
from datassay.data.samples import SampleSet
from datassay.store.location import FAILURES
from datassay.store.manifest import CODE, digest

# Of these the version stands for the code.
FRAMEWORKS = {"torch", "torchvision", "transformers", "numpy", "datassay", "builtins"}
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), range, slice, PurePath)
OF_TORCH = (torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format)
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
# What every module has; its tensors, layers and hooks are looked at one by one.
BASE = {*vars(nn.Module()), "training"}
# Where and how a pretrained model was loaded, and that torch.compile was once put around it.
NO_CODE = {"name_or_path", "_name_or_path", "_commit_hash", "_is_torch_compile"}
# A hash of strings is another in each process.
NO_CODE |= {"_weight_conversions", "_use_kernels", "_original_object_hash"}
# What transformers notes in a configuration when it saves it and reads it again.
NOTED = {"transformers_version", "architectures", "model_type", "dtype", "torch_dtype"}
DEEPEST = 40
DIGITS = 16


def model_fingerprint(model: nn.Module) -> dict[str, object]:
    """A network's architecture as it prints, weights and buffers, and code: one entry per cause."""
    model = unwrapped(model)
    # A function kept in a module prints with its place in memory.
    printed = re.sub(r" at 0x[0-9a-f]+", "", str(model))
    return {"model": printed, "weights": weights_digest(model), CODE: code_fingerprint(model)}


def weights_digest(model: nn.Module) -> str:
    """SHA-256 of a network's weights and buffers, 64 hexadecimal digits."""
    state = unwrapped(model).state_dict()
    return digest({name: numpy_values(t) for name, t in state.items()})


def numpy_values(tensor: Tensor) -> np.ndarray:
    """As NumPy holds them: bfloat16 it does not know, every value of it is one of float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def frozen_fingerprint(model: nn.Module) -> dict[str, object]:
    """Which parameters training leaves as they are: one entry, or none where all of them train."""
    named = unwrapped(model).named_parameters()
    frozen = [name for name, p in named if not p.requires_grad]
    return {"frozen tensors": frozen} if frozen else {}


def machine_fingerprint(model: nn.Module) -> dict[str, object]:
    """Library and machine facts that may change the last bits of a network's derivatives."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    return {
        "torch": torch.__version__,
        "device": device.type,
        "processor": torch.backends.cpu.get_cpu_capability(),
    }


def samples_fingerprint(samples: SampleSet | None) -> str:
    """Inputs, targets and ids of a set: 64 hexadecimal digits, or "none"."""
    if samples is None:
        return "none"
    ids = samples.ids if samples.ids.dtype.kind in "iuSU" else samples.ids.astype(str)
    return digest({"x": samples.x, "y": samples.y, "ids": ids})


def code_fingerprint(model: object) -> dict[str, str]:
    """Name of a piece of code → digest or version, the same in every process."""
    # Of every class in the module tree outside torch and transformers: its methods, and the
    # functions, constants and objects that `forward`, and what it calls, name. Of every module: its
    # attributes, hooks and buffers that the state dict leaves out. What `forward` itself changes is
    # left out. Of another object all methods count.
    walk = _Walk()
    if isinstance(model, nn.Module):
        for name, module in model.named_modules():
            walk.module(name, module)
        for hooks in ("_global_forward_pre_hooks", "_global_forward_hooks"):
            if of_all := [*vars(nn.modules.module)[hooks].values()]:
                walk.note(f"torch's {hooks[8:]}", of_all)
    else:
        walk.note(f"attributes of {type(model).__name__}", model)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {**walk.digests, "Python": python}


class _Walk:
    """Goes through values in a fixed order; functions and classes get an entry each."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self._names: dict[int, str] = {}  # by id
        self._taken: Counter[str] = Counter()
        self._changed = functools.cache(_written)
        self._alive: list[object] = []  # so that no id is given twice

    def module(self, path: str, module: nn.Module) -> None:
        """Its class, and what it holds beside weights, persistent buffers and other modules."""
        cls = type(module)
        self.described(cls)
        loose = module._non_persistent_buffers_set
        held = {name: module._buffers[name] for name in sorted(loose) if name in module._buffers}
        own = _held(module, BASE | self._changed(cls))
        hooks = {name: [*vars(module)[name].values()] for name in HOOKS if vars(module).get(name)}
        if held or own or hooks:
            where = f"{path} ({cls.__name__})" if path else cls.__name__
            self.note(f"attributes of {where}", [held, own, hooks])

    def note(self, name: str, value: object) -> None:
        """An entry of this name."""
        self.digests[name] = _digest(self.described(value))

    def described(self, value: Any, depth: int = 0) -> object:
        """A value as plain JSON values, the same in every process."""
        kind = type(value)
        if isinstance(value, enum.Enum):
            return [kind.__name__, value.name]
        if kind in PLAIN or isinstance(value, PLAIN + OF_TORCH):
            return [kind.__name__, repr(value)]
        if isinstance(value, Tensor | np.ndarray | np.generic):
            return [kind.__name__, *_array(value)]
        if depth > DEEPEST:
            return kind.__name__
        if id(value) in self._names:
            return self._names[id(value)]
        self._alive.append(value)
        try:
            return self._compound(value, depth + 1)
        except FAILURES:  # of an object's own code
            return kind.__name__

    def _compound(self, value: Any, depth: int) -> object:
        below = functools.partial(self.described, depth=depth)
        if isinstance(value, Mapping):
            return [type(value).__name__, [[below(k), below(v)] for k, v in value.items()]]
        if isinstance(value, set | frozenset):
            return ["set", sorted((below(v) for v in value), key=json.dumps)]
        if isinstance(value, list | tuple):
            return [type(value).__name__, [below(v) for v in value]]
        if isinstance(value, functools.partial):
            return ["partial", below(value.func), below(value.args), below(value.keywords)]
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        for parts in (_parts_of_callable(value), _parts_of_object(value)):
            if parts is not None:
                self._name(value, f"an object of {type(value).__qualname__}")
                return [below(type(value)), [below(part) for part in parts]]
        return getattr(value, "__qualname__", type(value).__qualname__)

    def _name(self, value: object, name: str) -> str:
        """A name for it that no other value has, so that it is looked at once."""
        self._taken[name] += 1
        number = self._taken[name]
        self._names[id(value)] = name if number == 1 else f"{name} #{number}"
        return self._names[id(value)]

    def _function(self, function: FunctionType) -> str:
        name = self._name(function, function.__qualname__.replace("<locals>.", ""))
        closure = _closure(function)
        if _home(function.__globals__.get("__name__")) == "framework":
            inside = [self.described(value) for value in closure.values()]
            self.digests[name] = _digest([function.__globals__["__name__"], inside])
            return name
        defaults = [function.__defaults__, function.__kwdefaults__]
        is_own = _home(function.__globals__.get("__name__")) == "own"
        used = dict(names_used(function)) if is_own else {}
        self.digests[name] = _digest([
            described(function.__code__),
            self.described(defaults),
            [[n, self.described(v)] for n, v in closure.items()],
            [[n, self.described(v)] for n, v in sorted(used.items(), key=lambda pair: pair[0])],
        ])
        return name

    def _class(self, cls: type) -> str:
        # exec gives classes of code without a module the name of the built-in one.
        stray = cls.__module__ == "builtins" and vars(builtins).get(cls.__name__) is not cls
        home = "own" if stray else _home(cls.__module__)
        if home in {"framework", "standard"}:
            self._package(cls.__module__)
            return f"{cls.__module__}.{cls.__qualname__}"
        name = self._name(cls, cls.__qualname__.replace("<locals>.", ""))
        bases = [self.described(base) for base in cls.__mro__[1:-1]]
        if home == "package":
            self._package(cls.__module__)
        written = self._changed(cls)
        reached = _reached(cls) if issubclass(cls, nn.Module) else None
        special = re.compile("__|_abc_impl$").match
        parts: list[list[object]] = []
        for member, value in vars(cls).items():
            functions = _functions(value)
            if functions and (home == "package" or (reached is not None and member not in reached)):
                parts.append([member, [described(f.__code__) for f in functions]])
            elif functions or (home == "own" and member not in written and not special(member)):
                parts.append([member, self.described(value)])
        self.digests[name] = _digest([bases, parts])
        return name

    def _package(self, module: str) -> None:
        top = module.partition(".")[0]
        # torch's own version is an entry of every manifest that needs it.
        if top not in {"torch", "builtins"} and top not in sys.stdlib_module_names:
            self.digests[f"package {top}"] = _version(top)


def _parts_of_callable(value: Any) -> list[Any] | None:
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if isinstance(value, re.Pattern):
        return [value.pattern, value.flags]
    wrapped = getattr(value, "__wrapped__", None)  # lru_cache
    return None if wrapped is None or isinstance(value, nn.Module) else [wrapped]


def _parts_of_object(value: Any) -> list[Any] | None:
    """What an object of somebody's class holds; None of one that is not looked into."""
    if isinstance(value, torch.jit.ScriptModule):
        return [value.code]
    if isinstance(value, nn.Module):
        skipped = (BASE | _written(type(value))) - {"_modules", *HOOKS}
        return [
            {**dict(value.named_parameters()), **dict(value.named_buffers())},
            _held(value, skipped),
        ]
    known = isinstance(value, SimpleNamespace | Namespace)
    if not known and _home(type(value).__module__) == "standard":
        return None
    return [_held(value, set())] if hasattr(value, "__dict__") or _slots(value) else None


def _held(value: Any, skipped: set[str]) -> dict[str, Any]:
    held = {**getattr(value, "__dict__", {})}
    held |= {name: getattr(value, name) for name in _slots(value) if hasattr(value, name)}
    is_config = hasattr(value, "to_json_string") and hasattr(value, "model_type")
    left_out = skipped | NO_CODE | (NOTED if is_config else set())
    return {name: part for name, part in held.items() if name not in left_out}


def _slots(value: object) -> list[str]:
    slots = [vars(cls).get("__slots__", ()) for cls in type(value).__mro__]
    names = [name for s in slots for name in ([s] if isinstance(s, str) else s)]
    return [name for name in names if not name.startswith("__")]


def _functions(value: Any) -> list[FunctionType]:
    """The functions of a class's member."""
    inside: Iterable[Any] = (value,)
    if isinstance(value, staticmethod | classmethod):
        inside = (value.__func__,)
    elif isinstance(value, property):
        inside = (value.fget, value.fset, value.fdel)
    return [f for f in inside if isinstance(f, FunctionType)]


def _reached(cls: type) -> frozenset[str]:
    """Names of the methods that `forward` may call on the module, itself among them."""
    members = {n: v for c in reversed(cls.__mro__[:-1]) for n, v in vars(c).items()}
    reached, waiting = set(), {"forward", "__call__"}
    while waiting:
        name = waiting.pop()
        reached.add(name)
        for f in _functions(members.get(name)):
            waiting |= (attributes_read(f.__code__) & members.keys()) - reached
    return frozenset(reached)


def _written(cls: type) -> frozenset[str]:
    """Names of the attributes that `forward`, or what it calls, changes itself."""
    classes = [c for c in cls.__mro__ if c not in {nn.Module, object}]
    results = [vars(c)[n] for c in classes for n in _reached(cls) if n in vars(c)]
    functions = [f for value in results for f in _functions(value)]
    return frozenset().union(*(names_written(f.__code__) for f in functions))


def _closure(function: FunctionType) -> dict[str, Any]:
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    values: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            values[name] = None
    return values


@functools.cache
def _home(module: str | None) -> str:
    """Where a module's code is from: "framework", "standard", "package" or "own"."""
    top = (module or "__main__").partition(".")[0]
    if top in FRAMEWORKS:
        return "framework"
    if top in sys.stdlib_module_names and top != "__main__":
        return "standard"
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return "package" if {"site-packages", "dist-packages"} & {*PurePath(file).parts} else "own"


@functools.cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(package), "__version__", "unknown"))


def _array(value: Any) -> list[str]:
    if isinstance(value, Tensor) and (value.is_meta or value.layout != torch.strided):
        return [str(value.dtype), str(tuple(value.shape))]
    kind = str(value.dtype)
    value = numpy_values(value) if isinstance(value, Tensor) else np.asarray(value)
    if value.dtype == object:
        return [kind, str(value.shape)]
    data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
    return [kind, str(value.shape), hashlib.sha256(data).hexdigest()]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:DIGITS]
