"""Networks and weights that fit badly: each gives scores or one line, and no code is run."""

import pickle
import random
from pathlib import Path

import numpy as np
import torch
from torch import nn

from helpers.attack.attempt import Attempt, attempt, command
from helpers.attack.case import Case, damaged, different_tables, table, write_csv

HEAD = """
import os, sys, time, torch
from torch import nn
from torch.nn.utils import parametrizations
net = lambda: nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
class Own(nn.Module):
    def __init__(self):
        super().__init__(); self.a = nn.Linear(1, 4); self.b = nn.Linear(4, 1)
    def forward(self, x):
        {forward}
    def plain(self, x):
        return self.b(torch.tanh(self.a(x)))
def make():
    {make}
"""
# Bodies of forward that compute the same as the plain one, whatever else they do.
SAME = r"""
return self.plain(x)
print('hello'); return self.plain(x)
os.chdir('/'); return self.plain(x)
torch.set_grad_enabled(False); return self.plain(x)
torch.manual_seed(1); return self.plain(x)
torch.set_default_dtype(torch.float64); return self.plain(x)
torch.use_deterministic_algorithms(True); return self.plain(x)
self.seen = x; return self.plain(x)
return eval('self.plain(x)')
sys.stdout.close(); return self.plain(x)
""".strip().splitlines()
# And others.
FORWARDS = r"""
return None
return (self.plain(x),)
return {'y': 0}
return self.plain(x)[:, 0]
return self.plain(x).sum()
return self.plain(x) * 0
return self.plain(x) + float('nan')
return self.plain(x) / 0
return x
return self.plain(x) * torch.rand(1)
return self.plain(x) + torch.randn_like(x)
return self.plain(x) - x.mean()
return self.plain(x)[torch.randperm(len(x))]
raise SystemExit(3)
raise KeyboardInterrupt
raise BaseException('no')
raise MemoryError
raise RecursionError
return self.forward(x)
assert 0, '\x1b[2J'
sys.exit('gone')
raise ValueError('line\nline\nline')
raise GeneratorExit
x += 1; return self.plain(x)
return self.plain(x.clone().mul_(2))
return self.plain(x).detach()
return self.plain(x) if x.sum() > 0 else -self.plain(x)
return torch.where(x > 0, self.plain(x), x)
return self.plain(x).to(torch.complex64)
return self.plain(x).half()
return self.plain(x).double()
return self.plain(x).round()
return self.plain(x).long()
return torch.zeros(len(x) + 1, 1)
return self.plain(x).expand(-1, 7)
return self.plain(x).to_sparse()
return self.plain(x).item()
return torch.linalg.inv(self.a.weight.expand(4, 4))[:1] * x
self.a.weight.data += 1; return self.plain(x)
""".strip().splitlines()
# Bodies of the factory.
MAKES = r"""
return Own()
return net()
return Own
return None
return {}
raise SystemExit
return nn.Identity()
return nn.Linear(1, 1, bias=False)
return nn.LazyLinear(1)
return net().to('meta')
return net().half()
return net().double()
return net().to(torch.bfloat16)
return torch.jit.script(net())
return torch.compile(net())
return nn.DataParallel(net())
return nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).train()
return net().requires_grad_(False)
return nn.Sequential(nn.Linear(1, 4), nn.Dropout(0.5), nn.Linear(4, 1)).train()
return parametrizations.weight_norm(nn.Linear(1, 1))
return parametrizations.spectral_norm(nn.Linear(1, 1))
m = net(); m[2].weight = m[0].weight; return m
m = net(); m.add_module('same', m[0]); return m
m = net(); m[0].register_forward_hook(lambda *a: a[2] * 2); return m
m = net(); [p.data.fill_(float('nan')) for p in m.parameters()]; return m
m = net(); [p.data.mul_(1e30) for p in m.parameters()]; return m
m = net(); [p.data.mul_(1e-30) for p in m.parameters()]; return m
m = net(); [p.data.zero_() for p in m.parameters()]; return m
return nn.Sequential(nn.Linear(1, 0), nn.Linear(0, 1))
return nn.Linear(2, 1)
return nn.Linear(1, 9)
return nn.Sequential(nn.LSTM(1, 2))
return nn.Sequential(*[nn.Linear(1, 1) for _ in range(2000)])
return nn.Embedding(3, 1)
time.sleep(1); return net()
return nn.Linear(1, 1).to(torch.complex64)
return nn.MultiheadAttention(1, 1)
return torch.ao.quantization.quantize_dynamic(net(), dtype=torch.qint8)
raise BaseException('no')
raise KeyboardInterrupt
m = net(); m.weight = nn.Parameter(torch.eye(3).to_sparse()); return m
return nn.ModuleList([net()])
return lambda x: x
""".strip().splitlines()


def case(draw: random.Random, folder: Path) -> Case:
    """A network of the user's own, or weights for a built-in one."""
    lines = [[row[3], row[-1]] for row in table(random.Random(0), 24)]
    write_csv(folder / "data.csv", lines)
    planted = folder.parent / "planted"
    planted.unlink(missing_ok=True)
    own = draw.random() < 0.6
    name, arguments = (_own if own else _weights)(draw, folder, planted)
    plain = _plain(folder) if own else None

    def judge(ended: Attempt) -> str | None:
        if planted.exists():
            return "code of a pickle was run"
        if "weights_only" in ended.err + ended.out:
            return "torch's advice shown"
        if plain and name in SAME and ended.status == 0:
            return different_tables(plain, folder / "scores")
        return None

    # Results are written, and that they cannot be printed is told.
    expected = frozenset({1} if "close()" in name else ())
    return Case(name, command(["score", "data.csv", *arguments]), judge, expected)


def _plain(folder: Path) -> Path:
    """Scores of the network that computes as `SAME`, made once."""
    stored = folder.parent / "plain"
    if not stored.exists():
        text = HEAD.format(forward=SAME[0], make="return Own()")
        (folder / "plain_network.py").write_text(text)
        arguments = ["score", "data.csv", "--model", "plain_network:make", "--out", str(stored)]
        ended = attempt(command(arguments), folder)
        assert ended.status == 0, ended.err
    return stored


def _own(draw: random.Random, folder: Path, planted: Path) -> tuple[str, list[str]]:
    kind = draw.random()
    forward, make = draw.choice(SAME if kind < 0.2 else FORWARDS), "return Own()"
    if kind > 0.6:
        forward, make = SAME[0], draw.choice(MAKES)
    (folder / "mine.py").write_text(HEAD.format(forward=forward, make=make))
    engine = ["--engine", "processes"] if draw.random() < 0.05 else []
    return (make if kind > 0.6 else forward), ["--model", "mine:make", *engine]


class _Planted:
    def __init__(self, path: Path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def _weights(draw: random.Random, folder: Path, planted: Path) -> tuple[str, list[str]]:
    from safetensors.torch import save_file

    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = nn.Linear(1, 1).state_dict()
    path = folder / draw.choice(["weights.pt", "weights.safetensors", "weights"])
    odd = {
        "good": state, "meta": {k: v.to("meta") for k, v in state.items()},
        "sparse": {k: v.to_sparse() for k, v in state.items()},
        "complex": {k: v.to(torch.complex64) for k, v in state.items()},
        "half": {k: v.half() for k, v in state.items()},
        "double": {k: v.double() for k, v in state.items()},
        "whole numbers": {k: v.long() for k, v in state.items()},
        "nan": {k: v * float("nan") for k, v in state.items()},
        "huge": {k: v * 1e38 for k, v in state.items()},
        "more": state | {"\x1b[31mmore": torch.zeros(1)}, "fewer": dict(list(state.items())[:1]),
        "shapes": {k: v.expand(3, *v.shape) for k, v in state.items()},
        "a list": [torch.zeros(1)], "a module": nn.Linear(1, 1), "numbers": {1: torch.zeros(1)},
        "code": {"weight": _Planted(planted)}, "empty": {},
    }  # fmt: skip
    more = ("text", "folder", "none", "header", "code", *["damaged"] * 4)
    name = draw.choice([*odd, *more])
    values = odd.get(name, state)
    if path.suffix == ".safetensors":
        try:
            save_file({k: v.contiguous() for k, v in values.items()}, path)
        except (TypeError, AttributeError, ValueError, RuntimeError, NotImplementedError):
            path = folder / "weights.pt"
            torch.save(values, path)
    elif path.suffix == ".pt" or draw.random() < 0.5:
        torch.save(values, path, _use_new_zipfile_serialization=draw.random() < 0.8)
    else:
        path.write_bytes(pickle.dumps(_Planted(planted)))
    if name == "damaged":
        path.write_bytes(damaged(draw, path.read_bytes())[1])
    if name == "text":
        path.write_text("weights")
    if name == "header":
        path = folder / "weights.safetensors"
        path.write_bytes(np.uint64(2**62).tobytes() + b"{}")
    if name == "folder":
        path.unlink()
        path.mkdir()
    if name == "none":
        path.unlink()
    return f"{path.name} {name}", ["--model", "linear", "--weights", path.name]
