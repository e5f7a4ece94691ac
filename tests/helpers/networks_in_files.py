"""A network in files that can be edited between two imports, and the ways of changing it."""

import importlib
import sys

import torch
from torch import nn
from torch.nn.utils import parametrize

NET = """
import functools
import torch
from torch import nn
from edited_helpers import bend
import edited_helpers

SCALE = 1.0
LIMITS = {"low": -3.0}


class Gate(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.tanh()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * (1 - y * y)


class Net(nn.Module):
    slope = 1.0

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3)
        self.shift, self.calls, self.seen = 0.0, 0, {}
        self.before = lambda x: x
        self.after = functools.partial(torch.mul, other=1.0)

    def forward(self, x):
        self.calls += 1
        self.seen["last"] = x.shape
        h = Gate.apply(self.first(self.before(x)))
        h = self.part(h) * SCALE + self.shift
        h = torch.where(x.sum(1, keepdim=True) > 4.0, h, h * self.slope)
        h = h.clamp_min(LIMITS["low"]).to(x.dtype)
        h = nn.functional.dropout(h, 0.1, False)
        return self.after(self.second(bend(h)))

    def part(self, h):
        return h + edited_helpers.nothing(h)
"""
HELPERS = """
OFFSET = 0.0

def bend(x):
    return x.sin() + OFFSET

def nothing(x):
    from edited_helpers import OFFSET as zero
    return zero * x
"""
NAMES = ("edited_net", "edited_helpers")


class EditedNetwork:
    """The network as its files are now, imported anew each time."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        self.write(NET, HELPERS)

    def write(self, net, helpers):
        (self.folder / "edited_net.py").write_text(net)
        (self.folder / "edited_helpers.py").write_text(helpers)

    def edit(self, old, new):
        texts = [(self.folder / f"{name}.py").read_text() for name in NAMES]
        assert sum(text.count(old) for text in texts) == 1, old
        self.write(*(text.replace(old, new) for text in texts))

    def module(self):
        for name in NAMES:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("edited_net")

    def model(self):
        return self.module().Net()


class Same(nn.Module):
    def forward(self, weight):
        return weight * 1.0


def with_hook(module, model):
    model.second.register_forward_hook(lambda layer, given, output: output * (1 + 1e-12))


def with_parametrization(module, model):
    parametrize.register_parametrization(model.first, "bias", Same())


def with_attribute(module, model):
    model.shift = 1e-12


def with_global(module, model):
    module.LIMITS["low"] = -3.5


def with_forward(module, model):
    forward = model.forward
    model.forward = lambda x: forward(x) + 0.0


EDITS = {
    "another backward of an activation": ("(1 - y * y)", "(1 - y.abs())"),
    "another branch for some inputs": ("> 4.0", "> 3.9"),
    "a helper in another module": ("x.sin() + OFFSET", "x.cos() - 1 + OFFSET"),
    "a constant": ("SCALE = 1.0", "SCALE = 1.0000001"),
    "a constant of another module": ("OFFSET = 0.0", "OFFSET = 1e-9"),
    "a cast": ("clamp_min(LIMITS", "float().clamp_min(LIMITS"),
    "a part that is detached": ("h * self.slope)", "h.detach() * self.slope)"),
    "dropout in evaluation mode": ("0.1, False", "0.1, True"),
    "functools.partial": ("other=1.0", "other=1.0 + 1e-12"),
    "a lambda": ("lambda x: x", "lambda x: x + 0"),
    "a class attribute": ("slope = 1.0", "slope = 0.9999"),
    "a method that forward calls": ("return h + ed", "return h - ed"),
}
MUTATIONS = {
    "a hook": with_hook,
    "a parametrization": with_parametrization,
    "an attribute that does not print": with_attribute,
    "a global changed in place": with_global,
    "forward replaced on the object": with_forward,
}
COMMENTED = (
    NET
    .replace("    slope", '    """What it is."""\n    # why\n\n\n    slope')
    .replace("    def part(self, h):\n", '    def part(self, h):\n        """A part."""\n')
    .replace("SCALE = 1.0", "# The scale\nSCALE = 1.0  # of it"),
    HELPERS.replace("def bend(x):", "def bend(\n    x\n):\n    'bends'\n"),
)


def gradients(model, x):
    output = model.eval()(x)
    return output, torch.autograd.grad(output.sum(), [*model.parameters()], allow_unused=True)
