"""Every command that a run, a page or an error prints is typed as printed, where it is printed."""

import html
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import csv
from safetensors.torch import save_model

from datassay.commands.run.steps import budget
from datassay.commands.view.server import ReviewServer
from datassay.data.load import load
from datassay.models.build import build_model
from helpers.command_line import invoke

# Whole lines, those behind "Next:" and the like, and those that a page shows as code.
LINE = re.compile(r"^(?:[\w ]+: +| *)(datassay [a-z].*)$", re.MULTILINE)
CODE = re.compile(r"<code[^>]*>(datassay [a-z]+ [^<]*)</code>")
IN_ERROR = re.compile(r"Run (datassay view (?:'[^']*'|[^\s,]+))|add (--accept-suggested 0\.9)\.")
TO_ADD = re.compile(r"(?:as in|give|Give) (--[a-z].*?)(?:[.;,]? (?:Its|The|or|it is)\b|[.;,]$)")
DEEPEST = 4  # commands that lead to each other


def frame(seed=0, n=160, **further):
    """A table with an id, wrong labels, copies and an odd column name."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    y = x.sum(1) > 0
    x += 0.4 * np.where(y, 1, -1)[:, None]
    x[-20:], y[-20:] = x[:20], y[:20]
    y[20:34] ^= True
    columns = {"key": [f"k{i}" for i in range(n)], **{f"x{j}": c for j, c in enumerate(x.T)}}
    columns |= {name: make(y, x) for name, make in further.items()}
    return pa.table({**columns, "the answer": np.where(y, "yes", "no")})


def leaky(y, x):
    return np.where(y, "A, 1", "B 2")


def texts():
    rng = np.random.default_rng(0)
    words = ["parcel driver street late", "invoice refund amount card"]
    lines = [" ".join(rng.permutation(words[i % 2].split())) + f" case {i % 9}" for i in range(140)]
    labels = np.array(["delivery", "billing"])[np.arange(140) % 2]
    labels[:8] = labels[1:9]
    return pa.table({"id": np.arange(140), "text": lines, "topic": labels})


def write_images(folder):
    rng = np.random.default_rng(0)
    for k, name in enumerate(("dark side", "light")):
        (folder / name).mkdir(parents=True)
        for i in range(30):
            level = 60 if (k == 0) != (i < 2) else 190
            pixels = np.clip(rng.normal(level, 40, (12, 12)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{k}{i}.png")


def write(name, table):
    csv.write_csv(table, name)


def write_baseline(name, table):
    """The same table in an earlier state, checked, and as it is now."""
    write(name, table.slice(0, 120))
    invoke("check", name, "--target", "the answer", "--fail-on", "leak", "--out", "old")
    Path("old/summary.json").rename("summary.json")
    write(name, table)


PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b")  # such as NEW, which a reader fills in

# Root → how its data are made. What it prints is typed, and what that prints, and so on.
ROOTS = {
    "score 'my data.csv' --target 'the answer' --ids key": (
        lambda: write("my data.csv", frame(code=leaky))
    ),
    "run data.csv --target 'the answer' --val-fraction 0.25 --out 'a b/report'": (
        lambda: write("data.csv", frame())
    ),
    "check data.csv --target 'the answer' --fail-on wrong --drop x3 --model linear": (
        lambda: write("data.csv", frame())
    ),
    "run cost.csv --target cost": (
        lambda: write("cost.csv", frame(cost=lambda y, x: np.round(50 * x[:, 0]) * (1 + 9 * y)))
    ),
    "score texts.csv --target topic --ids id": lambda: write("texts.csv", texts()),
    "score 'two parts' --model linear": lambda: write_images(Path("two parts")),
    "run iris --budget 0": lambda: None,
    "score iris --noise 0.1": lambda: None,
    "check data.csv --target 'the answer' --fail-on leak --baseline summary.json --out new": (
        lambda: write_baseline("data.csv", frame())
    ),
    "index iris --model mlp:width=8 --weights my.safetensors --out 'an index'": (
        lambda: save_model(build_model("mlp:width=8", load("iris")[0]), "my.safetensors")
    ),
    "weigh data.csv --target 'the answer' --seeds 2": lambda: write("data.csv", frame()),
    "purify data.csv --target 'the answer'": lambda: write("data.csv", frame()),
    "polynomial data.csv --target 'the answer'": lambda: write("data.csv", frame()),
    "sample runge --n-initial 8 --n-new 4 --compare 2": lambda: None,
    "complexity --inputs 2:4 --width 2 --teachers 2 --students 2": lambda: None,
    "example people": lambda: None,
    "example digits": lambda: None,
}


def decide(server, *_):
    """A reviewer who keeps the first label, and goes."""
    session = server.session
    if not len(session):
        session.change([{"row": 1, "decision": "keep", "when": "2026-11-23T09:00:00Z"}])
    raise KeyboardInterrupt


def printed_commands(result):
    """What a command, its page and its summary told to type; an error's, too."""
    output = result.output
    for folder in re.findall(r"^Page: (.*)/index\.html$", output, re.MULTILINE):
        summary = json.loads(Path(folder, "summary.json").read_text("utf-8"))
        yield from summary["commands"]
        yield from filter(None, (advice["command"] for advice in summary["advice"]))
        page = Path(folder, "index.html").read_text("utf-8")
        yield from map(html.unescape, CODE.findall(page))
    yield from LINE.findall(output)


@pytest.mark.slow
@pytest.mark.parametrize("root", ROOTS)
def test_what_is_printed_can_be_typed(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(budget, "SECONDS", 0.4)
    monkeypatch.setattr(ReviewServer, "serve_forever", decide)
    ROOTS[root]()
    tried, waiting, failed = set(), [(f"datassay {root}", 0)], {}
    while waiting:
        line, depth = waiting.pop(0)
        if line in tried or PLACEHOLDER.search(line):
            continue
        tried.add(line)
        program, *words = shlex.split(line)
        monkeypatch.setattr("sys.argv", [program, *words])
        result = invoke(*words)
        if result.exit_code not in ({0, 3, 4} if words[0] == "check" else {0}):
            failed[line] = " ".join(result.output.split())[-300:]
        if depth < DEEPEST:
            waiting += [(following, depth + 1) for following in printed_commands(result)]
    assert not failed
    assert len(tried) > 1


@pytest.mark.parametrize(
    "command",
    [
        "weigh --seeds 2",
        pytest.param("score --model linear", marks=pytest.mark.slow),
        pytest.param("check --model linear", marks=pytest.mark.slow),
    ],
)
def test_what_an_error_tells_to_add_can_be_added(command, tmp_path, monkeypatch):
    """Without a target, without a condition, to the folder of other data: until it runs."""
    monkeypatch.chdir(tmp_path)
    name, *options = command.split()
    for data in ("a b.csv", "other.csv"):
        write(data, frame(seed=len(data)))
        words, added = [name, data, *options, "--out", "my run"], []
        while (result := invoke(*words)).exit_code not in {0, 3, 4}:
            assert len(added) < 3, result.stderr
            error = " ".join(result.stderr.split())
            (addition,) = filter(None, map(str.strip, TO_ADD.findall(error)))
            added += [addition]
            words += shlex.split(addition)
    assert "--overwrite" in added and len(added) > 1


def test_commands_in_errors_can_be_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ReviewServer, "serve_forever", decide)
    write("a b.csv", frame())
    invoke("score", "a b.csv", "--target", "the answer", "--model", "linear", "--out", "my run")
    apply = ["apply", "a b.csv", "my run", "--out", "clean"]
    error = invoke(*apply).stderr
    (view, _), (_, option) = IN_ERROR.findall(error)
    assert invoke(*apply, *option.split()).exit_code == 0
    assert invoke(*shlex.split(view)[1:]).exit_code == 0, view
    assert invoke(*apply[:-1], "other").exit_code == 0  # there are decisions now
    assert "as in datassay run digits." in invoke("run").stderr
    told = invoke("check", "iris", "--fail-on", "leak", "--baseline", "a b.csv").stderr
    assert "a b.csv cannot be read: it is no JSON" in told
