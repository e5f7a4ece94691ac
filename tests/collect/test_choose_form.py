"""Which form is chosen for which sizes, and whether its sizes are those of the run."""

import json
import subprocess
import sys
from dataclasses import fields

import pytest

from datassay.collect.choose_form import FLOAT64_WORK, MOST_SECONDS, choose_form
from datassay.collect.collection import collect
from datassay.collect.form import nominal_seconds, within_memory
from datassay.collect.jacobian_pass import JacobianPass
from datassay.collect.layers import Layers
from datassay.errors import SettingError
from helpers.collecting import classes, network


def mlp_layers(n_in, width, k):
    return Layers({"1": (n_in, width, True), "3": (width, k, True)}, {}, k)


def chosen(layers, sizes, **settings):
    form = choose_form(layers, sizes, memory=settings.pop("memory", 16e9), **settings)
    return form.representation, form.outputs, form.projection


@pytest.mark.parametrize(
    ("sizes", "width", "expected"),
    [
        ((300, 100, 3), 512, ("kernel", "joint", None)),
        ((1000, 1000, 1), 1024, ("kernel", "joint", None)),
        ((20_000, 500, 10), 8, ("features", "joint", None)),
        ((1437, 360, 10), 512, ("kernel", "averaged", None)),
        ((60_000, 10_000, 10), 512, ("features", "averaged", None)),
        ((3000, 10, 1), 512, ("kernel", "joint", None)),
        ((9000, 10, 1), 512, ("features", "joint", None)),
    ],
)
def test_auto(sizes, width, expected):
    assert chosen(mlp_layers(64, width, sizes[2]), sizes, memory=200e9) == expected


@pytest.mark.parametrize(("n_in", "k"), [(11, 2), (64, 10), (784, 10)])
def test_predicted_seconds_choose_the_form(n_in, k):
    sizes = (500, 2000, 3900, 4100, 8000, 12_000, 30_000, 60_000, 200_000)
    layers = mlp_layers(n_in, 512, k)
    forms = [choose_form(layers, (n, 0, k), memory=1e12) for n in sizes]
    seconds = [nominal_seconds(form, 0) for form in forms]
    assert forms[0].representation == "kernel" and not forms[0].instead_of
    assert max(seconds[:6]) <= MOST_SECONDS and max(seconds[:-1]) < seconds[-1]
    assert [form.landmarks for form in forms[-2:]] == [1024, 1024]
    assert "landmarks, 60000 x 1024" in forms[-2].summary
    reported = forms[5].instead_of
    assert "exact" in reported and "s on two cores; --projection none --outputs" in reported
    assert forms[5].options["outputs"] == "landmarks"
    for n, landmarks in ((1500, 0), (2000, 512), (200_000, 512)):
        assert choose_form(layers, (n, 0, k), memory=1e12, is_table=True).landmarks == landmarks
    again = choose_form(layers, (12_000, 0, k), memory=1e12, **forms[5].options)
    assert (again.landmarks, again.n_features) == (forms[5].landmarks, forms[5].n_features)
    assert not again.instead_of


def test_explicit_settings_are_honoured():
    layers, sizes = mlp_layers(64, 512, 10), (1437, 360, 10)
    assert chosen(layers, sizes, outputs="joint", projection=None) == ("kernel", "joint", None)
    assert chosen(layers, sizes, outputs="averaged") == ("kernel", "averaged", None)
    assert chosen(layers, sizes, projection=50) == ("features", "joint", 50)
    assert chosen(layers, sizes, projection=50, outputs="averaged") == ("kernel", "averaged", 50)
    assert chosen(layers, sizes, projection=20_000) == ("kernel", "joint", 20_000)
    assert choose_form(layers, sizes, projection_kind="sparse_sign").kind == "sparse_sign"


def test_the_memory_is_respected():
    """A convolution whose exact Jacobian is 40 MB a sample is sampled where it does not fit."""
    layers, sizes = Layers({}, {"conv.weight": 500_000}, 10), (2000, 500, 10)
    assert chosen(layers, sizes, memory=400e9, projection=None)[2] is None
    assert chosen(layers, sizes, memory=2e9) == ("kernel", "averaged", 2000)
    assert chosen(layers, sizes, memory=5e8) == ("features", "averaged", 1024)
    for outputs in ("auto", "joint", "averaged"):
        form = choose_form(layers, sizes, memory=5e8, outputs=outputs)
        assert form.peak_bytes <= 5e8
    form = choose_form(layers, sizes, memory=1e6)  # nothing fits: still planned
    assert form.peak_bytes > 1e6 and form.chunk >= 1


def test_hand_counts():
    """64 → 5 → 3 with biases: d = 343, factors 64 + 5 + 3·(5 + 3) = 93 values per sample."""
    form = choose_form(mlp_layers(64, 5, 3), (100, 20, 3), projection=None)
    assert form.n_parameters == form.n_features == 64 * 5 + 5 + 5 * 3 + 3 == 343
    assert form.n_rows == form.eigenproblem == 300
    assert form.precision == "float64" and form.representation == "kernel"
    assert form.jacobian_bytes == 8 * 120 * 93
    assert form.result_bytes == 8 * 300 * (300 + 60)
    assert form.jacobian_flops == 2 * 120 * (1 + 3) * 343
    assert form.kernel_flops == 2 * 100 * 120 * (64 + 5 + 9 * (5 + 3))
    assert form.flops == form.jacobian_flops + form.kernel_flops
    assert form.summary == "exact joint kernel, 300 x 300, float64 Jacobians"
    form = choose_form(mlp_layers(64, 512, 10), (2000, 400, 10), projection=300, outputs="joint")
    assert form.n_features == 300 + 300 + 300 + 10 == form.eigenproblem
    assert form.jacobian_bytes == form.result_bytes == 8 * 2400 * 10 * 910
    assert form.kernel_flops == 0
    assert form.summary.startswith("projected (≤ 300 a tensor) joint features, 20000 x 910, ")


BAD_SETTINGS = [
    ({"projection": 0}, "projection must be at least 1 feature a tensor; got 0"),
    ({"projection": "all"}, "projection must be 'auto', None or a whole number; got 'all'"),
    ({"projection": True}, "projection must be 'auto', None or a whole number; got True"),
    ({"outputs": "mean"}, "outputs must be one of auto, joint, averaged, mixed, landmarks; got"),
    ({"projection_kind": "x"}, "projection_kind must be 'coordinates' or 'sparse_sign'; got 'x'"),
    ({"memory": 0.0}, "memory must be a positive number of bytes; got 0.0"),
    ({"memory": float("nan")}, "memory must be a positive number of bytes; got nan"),
    ({"precision": "bfloat16"}, "precision must be one of auto, float64, float32"),
    ({"outputs": "mixed", "projection": None}, "'mixed' needs projected features; got"),
    ({"outputs": "landmarks", "projection": None}, "'landmarks' needs a number of landmarks"),
]


@pytest.mark.parametrize(("setting", "message"), BAD_SETTINGS)
def test_bad_settings(setting, message):
    with pytest.raises(SettingError, match=message):
        choose_form(mlp_layers(4, 3, 2), (5, 2, 2), **setting)


MEASURE = """
import json, os, resource, sys
import numpy as np, torch
torch.set_num_threads(1)
from datassay.collect.collection import collect
from datassay.data.samples import SampleSet
from datassay.models.networks import mlp
from datassay.score.leave_one_out import leave_one_out

def samples(n):
    x = np.random.default_rng(0).normal(size=(n, 64)).astype(np.float32)
    names = tuple("abcdefghij")
    return SampleSet(x=x, y=np.arange(n) % 10, ids=np.arange(n), class_names=names)

def peak():
    # ru_maxrss starts at the parent's size; Linux's own mark starts with the program.
    if os.path.exists("/proc/self/status"):
        lines = open("/proc/self/status").read().splitlines()
        return next(int(l.split()[1]) * 1024 for l in lines if l.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

n, m, score, settings = json.loads(sys.argv[1])
torch.manual_seed(0)
leave_one_out(collect(mlp((64,), 10, width=4), samples(20), samples(10)))
model, train, val = mlp((64,), 10, width=512), samples(n), samples(m)
before = peak()
lin = collect(model, train, val, **settings)
if score:
    leave_one_out(lin)
predicted = lin.form.peak_bytes if score else lin.form.collect_bytes
print(json.dumps([peak() - before, predicted]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "m", "score", "settings"),
    [
        (3000, 500, False, {"outputs": "averaged", "projection": None}),
        (1500, 100, False, {"projection": 100, "projection_kind": "sparse_sign"}),
        (2000, 300, True, {"outputs": "joint", "projection": 150}),
    ],
    ids=["averaged kernel", "sparse signs", "scores included"],
)
def test_memory_is_predicted_within_half(n, m, score, settings):
    """In a fresh process, beyond importing: the plan is what a user decides by."""
    run = [sys.executable, "-c", MEASURE, json.dumps([n, m, score, settings])]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    measured, predicted = json.loads(done.stdout)
    assert measured / 1.5 <= predicted <= measured * 1.5


@pytest.mark.parametrize("kind", ["coordinates", "sparse_sign"])
@pytest.mark.parametrize(
    ("layers", "sizes"),
    [
        (Layers({}, {"conv.weight": 500_000}, 10), (2000, 500, 10)),
        (Layers({}, {"conv.weight": 500_000}, 10), (6000, 500, 10)),
        (mlp_layers(64, 512, 10), (1437, 360, 10)),
        (mlp_layers(64, 512, 1), (5000, 360, 1)),
        (mlp_layers(784, 512, 10), (60_000, 100, 10)),
    ],
)
def test_what_the_memory_decided_is_said_and_its_options_give_it_again(layers, sizes, kind):
    decided = 0
    for memory in (1e6, 1e7, 1e8, 3e8, 1e9, 3e9, 1e10, 3e10, 1e11, 1e13):
        form = choose_form(layers, sizes, memory=memory, projection_kind=kind)
        again = choose_form(layers, sizes, memory=1e13, projection_kind=kind, **form.options)
        same = ("reason", "passed_over", "instead_of", "products")
        names = [f.name for f in fields(form) if f.name not in same]
        assert [getattr(form, n) for n in names] == [getattr(again, n) for n in names]
        assert again.passed_over == ""
        decided += bool(form.passed_over)
        if not form.passed_over:
            assert form.options == choose_form(layers, sizes, memory=1e13).options
    assert 0 < decided < 10


ALLOCATIONS = {
    "of NumPy": MemoryError("Unable to allocate 7.45 GiB for an array"),
    "of torch": RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
    "of a GPU": RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
}


@pytest.mark.parametrize("error", ALLOCATIONS.values(), ids=ALLOCATIONS)
def test_memory_that_runs_out_is_one_line_with_what_would_fit(error, monkeypatch):
    form = choose_form(mlp_layers(64, 512, 10), (1437, 360, 10))
    with pytest.raises(SettingError) as refused, within_memory(form):
        raise error
    message = str(refused.value)
    assert f"{form.summary} needs about {form.peak_bytes / 1e9:.3g} GB" in message
    assert "samples would fit" in message and "\n" not in message
    with pytest.raises(RuntimeError, match="other"), within_memory(form):
        raise RuntimeError("other")

    def fails(self, chunk):
        raise error

    monkeypatch.setattr(JacobianPass, "arrays", fails)
    with pytest.raises(SettingError, match="memory must hold what is collected and scored"):
        collect(network(), classes())


def test_precision_is_chosen_by_the_multiplications_at_every_position():
    layers = Layers({}, {"conv.weight": 9_000, "w": 1_000}, 10, {"conv": (16, 32, 32)})
    sizes = (100, 0, 10)
    work = 2.0 * 100 * 11 * (9_000 * 32 * 32 + 1_000)
    assert 2.0 * 100 * 11 * 10_000 < FLOAT64_WORK < work
    assert choose_form(layers, sizes).precision == "float32"
    assert choose_form(layers, (90, 0, 10)).precision == "float64"
    for precision in ("float32", "float64"):
        assert choose_form(layers, sizes, precision=precision).precision == precision
