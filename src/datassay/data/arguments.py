"""Arguments of public functions: samples are converted, the wrong kind is refused in one line."""

import functools
import inspect
import numbers
import os
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from datassay.data.samples import SampleSet
from datassay.errors import UNWEIGHTED, DataError, SettingError
from datassay.optional import text_if

F = TypeVar("F", bound=Callable[..., Any])

# Annotation → the types that it accepts, and its words in an error. int accepts any number: the
# function's own rule refuses 2.5.
PLAIN: dict[type, tuple[tuple[type, ...], str]] = {
    int: ((numbers.Real,), "a whole number"),
    float: ((numbers.Real,), "a number"),
    str: ((str,), "a string"),
    bool: ((bool, np.bool_), "True or False"),
    Path: ((os.PathLike,), "a path"),
    NoneType: ((NoneType,), "None"),
}
MAKERS = {
    "Linearization": "collect(model, train, val) makes one.",
    "LeaveOneOut": "leave_one_out(lin) makes one.",
    "LabelIssues": "label_issues(lin) makes one.",
    "SampleSet": "load(path), or load(frame, target=...), makes one of anything else.",
}
WORDS = {"SampleSet": "a SampleSet, a pair (x, y), a data frame or a Dataset of pairs"}


def checks_arguments(function: F) -> F:
    """Return the function with its arguments converted to samples and checked by their types."""
    # An argument annotated as a SampleSet is converted by `as_samples`; later ones are coded with
    # the classes of the first. Numbers, names, True or False, None, paths, our own classes and
    # unions of them are checked; the rest is left to the function, which knows its rules.
    signature = inspect.signature(function)

    @functools.cache
    def types_by_argument() -> dict[str, tuple[type, ...]]:
        hints = get_type_hints(function)
        types = {name: _flatten(hints[name]) for name in signature.parameters if name in hints}
        return {name: members for name, members in types.items() if members}

    @functools.wraps(function)
    def check_and_call(*args: Any, **kwargs: Any) -> Any:
        """Call the function with its arguments converted and checked."""
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            if "sample_weight" in kwargs:
                raise SettingError(f"sample_weight must be left out: {UNWEIGHTED}") from None
            return function(*args, **kwargs)  # Python says best which argument is missing
        arguments = bound.arguments
        first_set = None
        for name, members in types_by_argument().items():
            if name in arguments and SampleSet in members:
                value = arguments[name]
                if value is not None and not isinstance(value, SampleSet):
                    # It reads Datasets and images: only where needed.
                    from datassay.data.memory.convert import as_samples

                    reference = first_set if isinstance(first_set, SampleSet) else None
                    arguments[name] = as_samples(value, name, reference) or value
                if first_set is None:
                    first_set = arguments[name]
            if name in arguments:
                check_kind(name, arguments[name], *members)
        return function(*bound.args, **bound.kwargs)

    return check_and_call  # pyrefly: ignore[bad-return] (of the same signature)


def _flatten(hint: Any) -> tuple[type, ...]:
    """Return the types that an annotation names, if all of them are checked here, else ()."""
    if get_origin(hint) in {Union, UnionType}:
        members = get_args(hint)
    else:
        members = (hint,)
    classes = [m for m in members if isinstance(m, type) and not getattr(m, "_is_protocol", False)]
    ours = {m for m in classes if m.__module__.startswith("datassay.")}
    if not all(m in PLAIN or m in ours for m in members):
        return ()
    return members


def check_kind(name: str, value: object, *members: type) -> None:
    """Raise unless the value has one of these types; the message says how to make one."""
    accepted: list[type] = []
    words = []
    for member in members:
        name_of_type = member.__name__
        default = ((member,), WORDS.get(name_of_type, f"a {name_of_type}"))
        types, description = PLAIN.get(member, default)
        accepted += types
        words.append(description)
    is_scalar = getattr(value, "ndim", None) == 0  # of an array or a tensor
    if isinstance(value, tuple(accepted)) or (is_scalar and {int, float} & set(members)):
        return
    remedy = " ".join(MAKERS[m.__name__] for m in members if m.__name__ in MAKERS)
    if SampleSet in members and hasattr(value, "dataset"):
        remedy = "Pass a DataLoader as its .dataset."
    is_shown = isinstance(value, str | NoneType | numbers.Number)
    if is_shown:
        got = repr(value)
    else:
        got = f"a {type(value).__name__}"
    if any(m.__name__ == "SampleSet" for m in members):
        error = DataError
    else:
        error = SettingError
    raise error(f"{name} must be {' or '.join(words)}; got {got}.{text_if(remedy, ' ')}{remedy}")
