"""Arguments of the wrong kind: what is checked, what is left to the function, kinds of numbers."""

import ast
import importlib
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import datassay
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError


@checks_arguments
def given(
    samples: SampleSet | None = None,
    steps: int = 1,
    lr: float | str = "auto",
    fast: bool = False,
    store: str | Path | None = None,
    model: nn.Module | None = None,
    removed: Sequence[int] | None = None,
):
    """What it was given."""
    return samples, steps, lr, fast, store, model, removed


@pytest.mark.parametrize(
    "values",
    [
        {"steps": np.int64(3), "lr": np.float32(0.1)},
        {"steps": 2.5},
        {"lr": np.array(0.1)},
        {"lr": torch.tensor(0.1)},
        {"lr": 1, "fast": np.True_},
        {"store": Path("x")},
        {"store": "x"},
        {"model": "left to the function", "removed": 3},
    ],
)
def test_what_is_a_number_a_path_or_not_ours_passes(values):
    results = dict(zip(given.__wrapped__.__annotations__, given(**values), strict=True))
    assert all(results[name] is value for name, value in values.items())


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"steps": "3"}, SettingError, "steps must be a whole number; got '3'."),
        ({"steps": None}, SettingError, "steps must be a whole number; got None."),
        ({"steps": np.arange(3)}, SettingError, "steps must be a whole number; got a ndarray."),
        ({"lr": []}, SettingError, "lr must be a number or a string; got a list."),
        ({"fast": 1}, SettingError, "fast must be True or False; got 1."),
        ({"store": 1}, SettingError, "store must be a string or a path or None; got 1."),
        (
            {"samples": np.zeros(3)},
            DataError,
            "samples must be a SampleSet, a pair (x, y), a data frame or a Dataset of pairs or "
            "None; got a ndarray. load(path), or load(frame, target=...), makes one of anything "
            "else.",
        ),
    ],
)
def test_what_is_not_is_one_line(values, error, message):
    with pytest.raises(error) as reported:
        given(**values)
    assert str(reported.value) == message


def test_every_annotation_of_a_checked_function_is_known_at_run_time():
    """Names that only the type checker imports would fail in the user's first call."""
    root, checked = Path(datassay.__file__).parent, []
    for file in root.rglob("*.py"):
        for node in ast.parse(file.read_text("utf-8")).body:
            names = {ast.unparse(d) for d in getattr(node, "decorator_list", [])}
            if "checks_arguments" in names:
                module = ".".join(file.relative_to(root.parent).with_suffix("").parts)
                checked.append(getattr(importlib.import_module(module), node.name))
    assert len(checked) >= 20
    for function in checked:
        assert get_type_hints(inspect.unwrap(function))


def test_a_loader_is_answered_with_its_dataset():
    loader = DataLoader(TensorDataset(torch.eye(4), torch.arange(4)))
    with pytest.raises(
        DataError, match=r"got a DataLoader\. Pass a DataLoader as its \.dataset\.$"
    ):
        given(loader)
    assert isinstance(given(loader.dataset)[0], SampleSet)
