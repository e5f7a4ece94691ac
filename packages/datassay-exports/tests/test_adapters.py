"""Adapters without the tools that they adapt to."""

import sys
from importlib import import_module

import pytest
from torch import nn

from datassay.errors import SettingError


@pytest.mark.parametrize(
    ("name", "missing", "use", "command"),
    [
        ("captum", "captum.influence", lambda one: one.Influence(nn.Linear(2, 2), []), "captum"),
        ("datalab", "cleanlab.datalab.internal.issue_manager",
         lambda one: one.register_managers(), r"'cleanlab\[datalab\]"),
        ("opendataval", "opendataval.dataval.api", lambda one: one.Values(), "opendataval"),
        ("quanda", "quanda.explainers.base", lambda one: one.Influence(nn.Linear(2, 2), []),
         "quanda"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)  # fmt: skip
def test_the_error_names_the_command(name, missing, use, command, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, f"datassay_exports.{name}", raising=False)
    with pytest.raises(SettingError, match=f"pip install {command}"):
        use(import_module(f"datassay_exports.{name}"))
    del sys.modules[f"datassay_exports.{name}"]  # the next test imports it with what is installed
