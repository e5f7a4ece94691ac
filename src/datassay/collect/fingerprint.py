"""Fingerprints: what results depend on, as plain JSON values that a manifest keeps.

Of a model's code: everything beside its weights that decides what it computes.
"""

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

from datassay.collect.bytecode import attributes_read, describe_code, names_used, names_written
from datassay.collect.jacobian.suitable import unwrap
from datassay.data.samples import SampleSet
from datassay.store.digests import digest
from datassay.store.location import FAILURES
from datassay.store.manifest import CODE

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
    """Return what identifies a network: architecture in text, weights' digest, code digests."""
    model = unwrap(model)
    # A function kept in a module prints with its place in memory.
    printed = re.sub(r" at 0x[0-9a-f]+", "", str(model))
    return {"model": printed, "weights": weights_digest(model), CODE: code_fingerprint(model)}


def weights_digest(model: nn.Module) -> str:
    """Return the SHA-256 of a network's weights and buffers, 64 hexadecimal digits."""
    state = unwrap(model).state_dict()
    return digest({name: numpy_values(t) for name, t in state.items()})


def numpy_values(tensor: Tensor) -> np.ndarray:
    """Convert a tensor to NumPy; bfloat16, which NumPy lacks, becomes float32 without loss."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def frozen_fingerprint(model: nn.Module) -> dict[str, object]:
    """Return {"frozen tensors": names that do not train}; empty where all of them train."""
    parameters = unwrap(model).named_parameters()
    frozen = [name for name, p in parameters if not p.requires_grad]
    if not frozen:
        return {}
    return {"frozen tensors": frozen}


def machine_fingerprint(model: nn.Module) -> dict[str, object]:
    """Return library and machine facts that may change the last bits of a derivative."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    return {
        "torch": torch.__version__,
        "device": device.type,
        "processor": torch.backends.cpu.get_cpu_capability(),
    }


def samples_fingerprint(samples: SampleSet | None) -> str:
    """Return the digest of a set's inputs, targets and ids, 64 digits, or "none"."""
    if samples is None:
        return "none"
    if samples.ids.dtype.kind in "iuSU":
        ids = samples.ids
    else:
        ids = samples.ids.astype(str)
    return digest({"x": samples.x, "y": samples.y, "ids": ids})


def code_fingerprint(model: object) -> dict[str, str]:
    """Return {name: digest or version} of all code that decides the model's outputs."""
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
    """A walk through values in a fixed order; functions and classes get a digest each."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}  # by name
        self._names: dict[int, str] = {}  # of values described before, by id
        self._name_counts: Counter[str] = Counter()
        self._find_changed_attributes = functools.cache(_find_changed_attributes)
        self._alive: list[object] = []  # so that no id is given twice

    def module(self, path: str, module: nn.Module) -> None:
        """Record a module's class, and its attributes, hooks and unsaved buffers."""
        cls = type(module)
        self.describe(cls)
        unsaved_names = sorted(module._non_persistent_buffers_set)
        unsaved = {name: module._buffers[name] for name in unsaved_names if name in module._buffers}
        attributes = _read_attributes(module, BASE | self._find_changed_attributes(cls))
        hooks = {name: [*vars(module)[name].values()] for name in HOOKS if vars(module).get(name)}
        if unsaved or attributes or hooks:
            if path:
                place = f"{path} ({cls.__name__})"
            else:
                place = cls.__name__
            self.note(f"attributes of {place}", [unsaved, attributes, hooks])

    def note(self, name: str, value: object) -> None:
        """Record the digest of a value under this name."""
        self.digests[name] = _digest(self.describe(value))

    def describe(self, value: Any, depth: int = 0) -> object:
        """Return JSON values that identify a value, equal in every process."""
        # A function, class or object gets its name, under which its digest is noted.
        kind = type(value)
        if isinstance(value, enum.Enum):
            return [kind.__name__, value.name]
        if kind in PLAIN or isinstance(value, PLAIN + OF_TORCH):
            return [kind.__name__, repr(value)]
        if isinstance(value, Tensor | np.ndarray | np.generic):
            return [kind.__name__, *_describe_array(value)]
        if depth > DEEPEST:
            return kind.__name__
        if id(value) in self._names:
            return self._names[id(value)]
        self._alive.append(value)
        try:
            return self._describe_compound(value, depth + 1)
        except FAILURES:  # of an object's own code
            return kind.__name__

    def _describe_compound(self, value: Any, depth: int) -> object:
        """Return JSON values that identify a container, function, class or object."""
        describe = functools.partial(self.describe, depth=depth)
        if isinstance(value, Mapping):
            return [type(value).__name__, [[describe(k), describe(v)] for k, v in value.items()]]
        if isinstance(value, set | frozenset):
            return ["set", sorted((describe(v) for v in value), key=json.dumps)]
        if isinstance(value, list | tuple):
            return [type(value).__name__, [describe(v) for v in value]]
        if isinstance(value, functools.partial):
            return ["partial", describe(value.func), describe(value.args), describe(value.keywords)]
        if isinstance(value, FunctionType):
            return self._record_function(value)
        if isinstance(value, type):
            return self._record_class(value)
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        for parts in (_list_callable_parts(value), _list_object_parts(value)):
            if parts is not None:
                self._assign_name(value, f"an object of {type(value).__qualname__}")
                return [describe(type(value)), [describe(item) for item in parts]]
        return getattr(value, "__qualname__", type(value).__qualname__)

    def _assign_name(self, value: object, name: str) -> str:
        """Return a unique name, assigned to the value so that it is described only once."""
        self._name_counts[name] += 1
        number = self._name_counts[name]
        self._names[id(value)] = name if number == 1 else f"{name} #{number}"
        return self._names[id(value)]

    def _record_function(self, function: FunctionType) -> str:
        """Record the digest of a function's code and all that it reads; return its name."""
        name = self._assign_name(function, function.__qualname__.replace("<locals>.", ""))
        closure = _read_closure(function)
        origin = _classify_origin(function.__globals__.get("__name__"))
        if origin == "framework":
            inside = [self.describe(value) for value in closure.values()]
            self.digests[name] = _digest([function.__globals__["__name__"], inside])
            return name
        defaults = [function.__defaults__, function.__kwdefaults__]
        outside = {}
        if origin == "own":
            outside = dict(names_used(function))
        self.digests[name] = _digest([
            describe_code(function.__code__),
            self.describe(defaults),
            [[n, self.describe(v)] for n, v in closure.items()],
            [[n, self.describe(outside[n])] for n in sorted(outside)],
        ])
        return name

    def _record_class(self, cls: type) -> str:
        """Record the digest of a class's bases and members; return its name."""
        # Methods that `forward` may reach count with all that they read, others and those of
        # packages by their own code alone. Attributes count in the user's own classes.
        # exec gives classes of code without a module the name of the built-in one.
        is_stray = cls.__module__ == "builtins" and vars(builtins).get(cls.__name__) is not cls
        origin = "own" if is_stray else _classify_origin(cls.__module__)
        if origin in {"framework", "standard"}:
            self._note_version(cls.__module__)
            return f"{cls.__module__}.{cls.__qualname__}"
        name = self._assign_name(cls, cls.__qualname__.replace("<locals>.", ""))
        bases = [self.describe(base) for base in cls.__mro__[1:-1]]
        if origin == "package":
            self._note_version(cls.__module__)
        skipped = self._find_changed_attributes(cls)
        reachable = frozenset(vars(cls))
        if issubclass(cls, nn.Module):
            reachable = _find_reachable_methods(cls)
        is_special = re.compile("__|_abc_impl$").match
        parts: list[list[object]] = []
        for member, value in vars(cls).items():
            functions = _list_functions(value)
            if functions and (origin == "package" or member not in reachable):
                parts.append([member, [describe_code(f.__code__) for f in functions]])
            elif functions or (
                origin == "own" and member not in skipped and not is_special(member)
            ):
                parts.append([member, self.describe(value)])
        self.digests[name] = _digest([bases, parts])
        return name

    def _note_version(self, module: str) -> None:
        """Record the version of a module's package, except torch and the standard library."""
        top = module.partition(".")[0]
        # torch's own version is an entry of every manifest that needs it.
        if top not in {"torch", "builtins"} and top not in sys.stdlib_module_names:
            self.digests[f"package {top}"] = _find_version(top)


def _list_callable_parts(value: Any) -> list[Any] | None:
    """Return what a wrapper or pattern is made of; None for any other value."""
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
    if wrapped is None or isinstance(value, nn.Module):
        return None
    return [wrapped]


def _list_object_parts(value: Any) -> list[Any] | None:
    """Return an object's contents that decide its results; None where they are not read."""
    if isinstance(value, torch.jit.ScriptModule):
        return [value.code]
    if isinstance(value, nn.Module):
        skipped = (BASE | _find_changed_attributes(type(value))) - {"_modules", *HOOKS}
        return [
            {**dict(value.named_parameters()), **dict(value.named_buffers())},
            _read_attributes(value, skipped),
        ]
    is_namespace = isinstance(value, SimpleNamespace | Namespace)
    if not is_namespace and _classify_origin(type(value).__module__) == "standard":
        return None
    if hasattr(value, "__dict__") or _list_slots(value):
        return [_read_attributes(value, set())]
    return None


def _read_attributes(value: Any, skipped: set[str]) -> dict[str, Any]:
    """Return {name: value} of an object's attributes, except those in `skipped`."""
    attributes = {**getattr(value, "__dict__", {})}
    attributes |= {
        name: getattr(value, name) for name in _list_slots(value) if hasattr(value, name)
    }
    left_out = skipped | NO_CODE
    if hasattr(value, "to_json_string") and hasattr(value, "model_type"):  # of transformers
        left_out = left_out | NOTED
    return {name: attribute for name, attribute in attributes.items() if name not in left_out}


def _list_slots(value: object) -> list[str]:
    names: list[str] = []
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return [name for name in names if not name.startswith("__")]


def _list_functions(value: Any) -> list[FunctionType]:
    """Return the plain functions in a class member: a method, or a property's."""
    candidates: Iterable[Any] = (value,)
    if isinstance(value, staticmethod | classmethod):
        candidates = (value.__func__,)
    elif isinstance(value, property):
        candidates = (value.fget, value.fset, value.fdel)
    return [f for f in candidates if isinstance(f, FunctionType)]


def _find_reachable_methods(cls: type) -> frozenset[str]:
    """Return names of the methods that `forward` may call, `forward` included."""
    members = {n: v for c in reversed(cls.__mro__[:-1]) for n, v in vars(c).items()}
    reached = set()
    waiting = {"forward", "__call__"}
    while waiting:
        name = waiting.pop()
        reached.add(name)
        for f in _list_functions(members.get(name)):
            waiting |= (attributes_read(f.__code__) & members.keys()) - reached
    return frozenset(reached)


def _find_changed_attributes(cls: type) -> frozenset[str]:
    """Return names of the attributes that `forward` and its methods assign."""
    classes = [c for c in cls.__mro__ if c not in {nn.Module, object}]
    members = [vars(c)[n] for c in classes for n in _find_reachable_methods(cls) if n in vars(c)]
    functions = [f for member in members for f in _list_functions(member)]
    return frozenset().union(*(names_written(f.__code__) for f in functions))


def _read_closure(function: FunctionType) -> dict[str, Any]:
    """Return {name: value} of the variables captured from enclosing functions."""
    names = function.__code__.co_freevars
    cells = function.__closure__ or ()
    values: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            values[name] = None
    return values


@functools.cache
def _classify_origin(module: str | None) -> str:
    """Return where a module comes from: "framework", "standard", "package" or "own"."""
    top = (module or "__main__").partition(".")[0]
    if top in FRAMEWORKS:
        return "framework"
    if top in sys.stdlib_module_names and top != "__main__":
        return "standard"
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    if {"site-packages", "dist-packages"} & {*PurePath(file).parts}:
        return "package"
    return "own"


@functools.cache
def _find_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(package), "__version__", "unknown"))


def _describe_array(value: Any) -> list[str]:
    """Return an array's type, shape and SHA-256; without digest for objects or sparse ones."""
    if isinstance(value, Tensor) and (value.is_meta or value.layout != torch.strided):
        return [str(value.dtype), str(tuple(value.shape))]
    kind = str(value.dtype)
    if isinstance(value, Tensor):
        value = numpy_values(value)
    else:
        value = np.asarray(value)
    if value.dtype == object:
        return [kind, str(value.shape)]
    data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
    return [kind, str(value.shape), hashlib.sha256(data).hexdigest()]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:DIGITS]
