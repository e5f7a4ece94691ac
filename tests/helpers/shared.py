"""What tests share stays as it was: a test that changes it fails, in whatever order they run.

Shared is what fixtures of a wider scope than one test write below the tests' temporary folder, what
`share` is told of, and the state of the process. torch, and generators of a test's module, draw the
same in each test and each shared fixture, whatever was drawn before.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

LIVE = {"browser", "one_browser"}  # their folders change as they are used
REPOSITORY = str(Path(__file__).parents[2])
# Variables that pytest sets, and what is imported: torch, polars, and the benchmarks.
OF_OTHERS = (
    "PYTEST_CURRENT_TEST",
    "TORCHINDUCTOR_",
    "_RJEM_",
    "RAY_",
    "SPT_NOENV",
    "OMP_NUM_",
    "KMP_",
)
_folders: dict[Path, tuple[str, dict]] = {}
_first_states: dict[int, object] = {}  # of generators, as their modules made them


def share(folder):
    """Watch a folder that outlives a test; gives it back."""
    _folders[folder] = ("", _content(folder))
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    if fixturedef.scope == "function" or fixturedef.argname == "tmp_path_factory":
        return (yield)
    torch.manual_seed(0)
    parent = request.getfixturevalue("tmp_path_factory").getbasetemp()
    before = set(os.listdir(parent))
    result = yield
    if fixturedef.argname not in LIVE:
        for folder in (parent / name for name in set(os.listdir(parent)) - before):
            if not folder.is_symlink():
                _folders[folder] = (_key(fixturedef), _content(folder))
    return result


def pytest_fixture_post_finalizer(fixturedef):
    if fixturedef.scope != "function":
        for folder in [path for path, (key, _) in _folders.items() if key == _key(fixturedef)]:
            del _folders[folder]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    item.stash[_BEFORE] = _process()
    torch.manual_seed(0)
    for generator in vars(item.module).values():
        if isinstance(generator, np.random.Generator):
            bits = generator.bit_generator
            bits.state = _first_states.setdefault(id(bits), bits.state)
        elif isinstance(generator, torch.Generator):
            first = _first_states.setdefault(id(generator), generator.get_state())
            generator.set_state(first)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    yield
    before, after = item.stash[_BEFORE], _process()
    names = before.keys() | after.keys()
    changed = [
        f"{n}: {before.get(n)} → {after.get(n)}" for n in names if before.get(n) != after.get(n)
    ]
    for folder, (key, content) in _folders.items():
        now = _content(folder)
        changed += [
            str(folder / n) for n in content.keys() | now.keys() if content.get(n) != now.get(n)
        ]
        _folders[folder] = (key, now)  # the next test did not change it
    if changed:
        pytest.fail(
            f"This test changed what others share: {'; '.join(sorted(changed))}", pytrace=False
        )


_BEFORE = pytest.StashKey[dict]()


def _key(fixturedef):
    return f"{fixturedef.baseid}::{fixturedef.argname}"


def _content(folder):
    """Of each file below: its size, its time and whether it is the same file."""
    content = {}
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            about = os.lstat(os.path.join(path, name))
            file = os.path.relpath(os.path.join(path, name), folder)
            content[file] = (about.st_size, about.st_mtime_ns, about.st_ino)
    return content


def _process():
    environment = {f"${k}": v for k, v in os.environ.items() if not k.startswith(OF_OTHERS)}
    return {
        **environment,
        "current folder": os.getcwd(),
        "sys.path": tuple(path for path in sys.path if not path.startswith(REPOSITORY)),
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "gradients": torch.is_grad_enabled(),
    }
