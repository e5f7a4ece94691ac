"""An index of 60 000 images or 100 000 texts: built, killed, asked, appended to, compared.

"cnn" (three convolutions with batch norm, 6046 weights) learns Fashion-MNIST in --work first;
"texts" is a small GPT. Each is built in a process of its own and
asked 10 000 queries; "cnn, killed" is built by processes that are killed ten times, and "cnn,
append" has a tenth appended to it. Its effects are compared with exact ones: `fidelity` of the
index itself, 64 queries and 256 samples. "lds" asks indices of the networks of `halves.py`, of
8, 4 and 2 kB a sample, how well they predict retraining, beside `influence`.
"""

import hashlib
import multiprocessing
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.attribution import cases, problems
from bench.attribution.problems import batch_of, small_cnn, standardised
from bench.data import folder, work
from bench.frame import HERE, Case, Options, Row, Task
from bench.stats import Stages, memory
from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils.data import Subset

import datassay as da
from datassay.data import SampleSet, load
from datassay.score import index_plan

KILLS = 10
N_TEXTS, N_ASKED = 100_000, 10_000
SIZES = (8192, 4096, 2048)  # bytes a sample


@dataclass(frozen=True)
class Indexed:
    """A trained network, its samples, and its queries with what they measure."""

    model: nn.Module
    train: Any
    queries: Any
    measure: str = "margin"

    def few(self, m: int) -> Any:
        """The first queries."""
        return _part(self.queries, 0, m)


def _part(samples: Any, start: int, stop: int) -> Any:
    if isinstance(samples, SampleSet):
        return samples.subset(np.arange(start, stop))
    return Subset(samples, range(start, min(stop, len(samples))))


def fashion() -> Indexed:
    """Adam, three epochs of all 60 000 images."""
    train, test = map(standardised, load(folder("fashion_mnist")))
    model, file = small_cnn(0), work() / "index_cnn.safetensors"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        _learn(model, batch_of(train))
        save_file(model.state_dict(), file)
    model.load_state_dict(load_file(file))
    return Indexed(model.eval(), train, test)


def _learn(model: nn.Module, batch: dict[str, torch.Tensor], epochs: int = 3) -> None:
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(model.train().parameters(), 2e-3)
    n = len(batch["labels"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * (n // 128))
    for _ in range(epochs):
        for rows in torch.randperm(n)[: n // 128 * 128].split(128):
            loss = nn.functional.cross_entropy(model(batch["x"][rows]), batch["labels"][rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def texts() -> Indexed:
    """The GPT of examples/small_gpt.py, 232 192 weights, and texts of halves of its sentences."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from datassay.lm import token_samples

    path = work() / "index_gpt"
    if not (path / "texts.txt").exists():
        sizes = "--width 64 --layers 2 --epochs 4 --most 10000".split()
        example = HERE.parent / "examples" / "small_gpt.py"
        subprocess.run([sys.executable, example, path, *sizes], check=True)
    model, tokenizer = (c.from_pretrained(path) for c in (AutoModelForCausalLM, AutoTokenizer))
    lines = (path / "texts.txt").read_text(encoding="utf-8").splitlines()
    rng = np.random.default_rng(0)

    def made(count: int) -> list[str]:
        pairs = rng.integers(0, len(lines), (count, 2)).tolist()
        halves = [(lines[a].split(), lines[b].split()) for a, b in pairs]
        return [" ".join([*a[: len(a) // 2], *b[len(b) // 2 :]]) or lines[0] for a, b in halves]

    settings = {"context": 64, "too_long": "truncate"}
    train, wanted = (
        token_samples(model, tokenizer, made(n), **settings) for n in (N_TEXTS, N_ASKED)
    )
    return Indexed(model.eval(), train, wanted, measure="loss")


INDEXED: dict[str, Callable[[], Indexed]] = {"cnn": fashion, "texts": texts}


def folder_of(name: str, which: str) -> Path:
    return work() / f"index_{name}" / which


def measured(name: str, options: Options) -> dict[str, object]:
    """Build in this process, a fresh one, and ask; what both took."""
    case, path = INDEXED[name](), folder_of(name, "once")
    shutil.rmtree(path, ignore_errors=True)
    plan = index_plan(case.model, case.train)
    before, used = memory("VmHWM"), time.process_time()
    started, stages = time.perf_counter(), Stages()
    ix = da.index(case.model, case.train, path, progress=stages)
    took = {
        "build_seconds": time.perf_counter() - started,
        "planned_seconds": plan.seconds,
        "build_processor_seconds": time.process_time() - used,
        "build_mib": memory("VmHWM") - before,
        "planned_bytes": round(plan.row_bytes + plan.curvature_bytes),
        "planned_query_seconds": plan.query_seconds(len(case.queries)),
        "stages": {step: round(v, 2) for step, v in stages.seconds.items()},
    }
    return {
        "n": len(ix), "parameters": sum(p.numel() for p in case.model.parameters()), **took,
        "width": ix.sketch.width, "bits": ix.sketch.bits, "bytes_a_sample": ix.bytes_per_sample,
        "bytes_on_disk": sum(p.stat().st_size for p in path.rglob("*") if p.is_file()),
        "fidelity": ix.fidelity, **asked(case, path),
    }  # fmt: skip


def asked(case: Indexed, path: Path) -> dict[str, float]:
    """Seconds of all queries together and of one alone, the index open."""
    ix, m = da.open_index(path, case.model), len(case.queries)
    ix.query(case.few(2), measure=case.measure)  # the network is prepared, rows are read
    started, used = time.perf_counter(), time.process_time()
    ix.query(case.queries, measure=case.measure)
    together, processor = time.perf_counter() - started, time.process_time() - used
    one = []
    for _ in range(10):
        started = time.perf_counter()
        ix.query(case.few(1), measure=case.measure)
        one.append(time.perf_counter() - started)
    return {
        "queries": m,
        "queries_seconds": together,
        "ms_a_query": 1000 * together / m,
        "processor_ms_a_query": 1000 * processor / m,
        "ms_one_alone": 1000 * float(np.median(one)),
    }


def _build(name: str, path: Path) -> None:
    case = INDEXED[name]()
    da.index(case.model, case.train, path)


def killed(options: Options) -> dict[str, object]:
    """Build by processes killed at times drawn at random: the same bits?"""
    rng, kills, positions = (
        np.random.default_rng(0),
        0,
        [folder_of("cnn", w) for w in ("once", "often")],
    )
    shutil.rmtree(positions[1], ignore_errors=True)
    spawn = multiprocessing.get_context("spawn")
    for limit in [*rng.uniform(6, 20, KILLS), None]:
        process = spawn.Process(target=_build, args=("cnn", positions[1]))
        process.start()
        process.join(limit)
        if process.exitcode is not None:
            break
        process.kill()
        process.join()
        kills += 1
    return {"kills": kills, "same_bits": len({bits(position) for position in positions}) == 1}


def bits(folder: Path) -> str:
    """SHA-256 over every file of a folder."""
    sha = hashlib.sha256()
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        sha.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return sha.hexdigest()


def appended(options: Options) -> dict[str, float]:
    """A tenth appended at once, and in two goes; processor time against building anew."""
    case, folder = INDEXED["cnn"](), folder_of("cnn", "more")
    n, cut, half = len(case.train), len(case.train) * 9 // 10, len(case.train) * 19 // 20
    shutil.rmtree(folder, ignore_errors=True)
    started = time.process_time()
    da.index(case.model, case.train, folder / "anew")
    anew = time.process_time() - started
    da.index(case.model, _part(case.train, 0, cut), folder / "once")
    shutil.copytree(folder / "once", folder / "twice")
    ix, other = (da.open_index(folder / name, case.model) for name in ("once", "twice"))
    ix.query(case.few(1), measure=case.measure)
    started = time.process_time()
    ix.append(_part(case.train, cut, n))
    seconds = time.process_time() - started
    other.append(_part(case.train, cut, half)).append(_part(case.train, half, n))
    a, b = (i.query(case.few(50), top=n, measure=case.measure) for i in (ix, other))
    apart = np.abs(np.sort(a.top.raising_effect) - np.sort(b.top.raising_effect)).max()
    return {
        "append_processor_seconds": seconds,
        "anew_over_append": anew / seconds,
        "append_apart": float(apart / np.abs(a.top.raising_effect).max()),
    }


def predicts(name: str, options: Options) -> dict[str, object]:
    """Linear datamodelling score of an index and of `influence`, one network."""
    result, path = cases.networks(name), folder_of("lds", name)
    problem, truth, scores = result.problem, result.truth.mean(0), {}
    train, queries = problem.given("train"), problem.given("queries")

    def score(effect) -> float:
        return problems.lds(problems.summed(np.asarray(effect), result.halves), truth)

    for size in SIZES:
        shutil.rmtree(path, ignore_errors=True)
        ix = da.index(result.models[0], train, path, bytes_per_sample=size)
        effect = ix.query(queries, top=None, measure=problem.measure).effect
        mean = (ix.fidelity or {})["mean"]
        scores[f"bytes_{size}"] = {"lds": round(score(effect), 4), "fidelity": mean}
    whole = problems.ours(problem, result.models[0])
    return scores | {"influence": {"lds": round(score(whole), 4)}}


def rows(lines: dict[str, dict]) -> list[Row]:
    """Rows of what was measured since rows are of few bits."""
    cnn, texts, killed = (lines[f"index/{name}"] for name in ("cnn", "texts", "cnn, killed"))
    results = []
    if "fidelity" in cnn and "fidelity" in texts:
        results.append(Row(
            f"An index of {cnn['n']:,} Fashion-MNIST images (CNN), of {texts['n']:,} texts (GPT of "
            f"{texts['parameters']:,} weights): bytes per sample; correlation with exact effects; "
            f"a query of {cnn['queries']:,}",
            "; ".join(
                f"{x['bytes_a_sample']:,}, {x['fidelity']['mean']:.2f}, {x['ms_a_query']:.1f} ms"
                for x in (cnn, texts)
            ),
        ))  # fmt: skip
    results.append(Row(
        f"The same index built by processes killed {killed['kills']} times; a tenth appended, "
        "against building anew",
        f"{'bit-identical' if killed['same_bits'] else 'differs'}; "
        f"{lines['index/cnn, append']['anew_over_append']:.0f} times faster",
    ))  # fmt: skip
    kept = [
        f"{name.partition(', ')[2]} "
        + ", ".join(f"{x[f'bytes_{size}']['lds']:.2f}" for size in SIZES)
        + f" ({x['influence']['lds']:.2f})"
        for name, x in lines.items()
        if name.startswith("index/lds, ") and f"bytes_{SIZES[0]}" in x
    ]
    if kept:
        sizes = ", ".join(f"{size:,}" for size in SIZES)
        what = (
            f"Linear datamodelling score of an index of {sizes} bytes per sample (of `influence`)"
        )
        results.append(Row(what, "; ".join(kept)))
    return results


TASK = Task(
    measure="an index: built, killed, asked, appended to",
    cases={
        **{name: Case(partial(measured, name), fresh=True) for name in INDEXED},
        "cnn, killed": Case(killed),
        "cnn, append": Case(appended),
        **{f"lds, {name}": Case(partial(predicts, name)) for name in ("mlp", "cnn", "bert", "gpt")},
    },
    lines="index/",
    rows=rows,
)
