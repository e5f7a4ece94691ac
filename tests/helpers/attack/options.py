"""Command lines that no one should type: every option of every command with absurd values."""

import dataclasses
import json
import random
from pathlib import Path

from helpers.attack.attempt import Attempt, command
from helpers.attack.case import Case, contents, lost, table, write_csv
from helpers.decided import decided
from helpers.runs import write_run

NUMBERS = (
    *("0", "-1", "-0", "1", "2", "3", "0.5", "1e400", "-1e400", "nan", "inf", "-inf", "1e-320"),
    *("1e9", "999999999999", "99999999999999999999999", "1e18", "2147483648", str(2**64)),
    *("0x10", "1_0", "٣", "½", "1,5", "1e", "--5", "+1", " 1", "1 ", "1.0", "True"),
)  # fmt: skip
WORDS = (
    *("", " ", ".", "/", "none", "auto", "None", "\x1b[31m", "~nouser", "../..", "label", "key"),
    *("a:b", ":", "mlp:", "mlp:width=1000000000", "mlp:width=0", "mlp:depth=100000", "linear:x=1"),
    *("json:loads", "os:system", "s3://key:secret@bucket/x", "http://u:p@127.0.0.1:9/x?token=t"),
    *("file:///nowhere", "nosuch://x", "-", "--", "\udcff", "x" * 100_000, "a\nb", "\t", "cuda:99"),
    *("data.csv", "/dev/full", "/dev/zero", "/proc/self/mem", "\ufeff", "<b>", "%s", "{0}"),
)
DECIDED = [("r003", "relabel", "yes", "no"), ("r004", "remove", "no", "")]
SECRETS = ("key:secret@", "u:p@", "token=t")
# A command's arguments when it is not attacked; each takes a second or two.
PLAIN = {
    "example": ["digits"],
    "run": ["data.csv", "--model", "linear", "--curve-seeds", "0"],
    "score": ["data.csv", "--model", "linear"],
    "check": ["data.csv", "--model", "linear", "--fail-on", "leak"],
    "summarize": ["data.csv", "--model", "linear"],
    "purify": ["data.csv"],
    "partition": ["data.csv"],
    "weigh": ["data.csv", "--model", "linear", "--seeds", "1"],
    "sample": ["runge", "--n-new", "5", "--compare", "1"],
    "polynomial": ["data.csv"],
    "complexity": ["data.csv", "--model", "linear", "--repeats", "2"],
    "bench": ["data.csv", "--model", "linear", "--steps", "5", "--halves", "20"],
    "lab": ["weight-decay"],
    "report": ["first", "second"],
    "export": ["first", "--to", "datalab"],
    "apply": ["data.csv", "decisions.parquet"],
    "explain": ["data.csv", "--model", "linear", "--weights", "weights.safetensors"],
    "index": ["data.csv", "--model", "linear", "--weights", "weights.safetensors"],
    "view": ["first", "--no-browser"],  # no run with data: it ends before it serves
}


def case(draw: random.Random, folder: Path) -> Case:
    """A command line with one to three odd options, beside the user's own files."""
    from datassay.commands.app import commands
    from datassay.setting import settings_of

    of = draw.choice(commands())
    write_csv(folder / "data.csv", table(draw))
    for seed, name in enumerate(("first", "second")):
        write_run(folder / name, noise=0.2, seed=seed)
    if of.name in {"explain", "index"}:
        _write_weights(folder)
    where = folder / "data.csv", folder / "decisions.parquet"
    decided(*where, DECIDED, target="label", ids="key")
    named = {
        spec.flag(name): (cls, name)
        for cls in of.groups
        for name, spec in settings_of(cls).items()
        if not spec.argument
    }
    flags = draw.sample(sorted(named), min(len(named), draw.choice([1, 1, 2, 3])))
    arguments = [of.name, *PLAIN[of.name]]
    for flag in flags:
        cls, name = named[flag]
        kind = next((str(f.type) for f in dataclasses.fields(cls) if f.name == name), "")
        arguments.append(flag)
        if "bool" not in kind:
            numeric = "int" in kind or "float" in kind
            pool = NUMBERS if numeric and draw.random() < 0.8 else (*WORDS, *NUMBERS)
            arguments.append(draw.choice(pool))
    if draw.random() < 0.1:
        arguments += ["--out", draw.choice(WORDS)]
    before = contents(folder)

    def judge(ended: Attempt) -> str | None:
        if removed := lost(before, folder):
            return removed
        texts = [ended.out, ended.err]
        texts += [text.decode("utf-8", "replace") for text in contents(folder).values()]
        positions = {"--store", "--out", "--data", "--model", "--weights", "--index"} & {*arguments}
        if positions and any(secret in text for secret in SECRETS for text in texts):
            return "secret shown"
        if of.name == "apply" and not ended.status and not _applied(folder):
            return "silent: other data than decided"
        return _strict_json(folder)

    shown = " ".join(repr(a) if len(a) < 60 else f"{a[:20]!r}..." for a in arguments)
    return Case(
        shown, command(arguments), judge, frozenset({1}) if of.name == "lab" else frozenset()
    )


def _applied(folder: Path) -> bool:
    """Whether the only other table is the first one as `DECIDED` has it."""
    (made,) = [f for f in folder.rglob("data.csv") if f.parent != folder]
    lines = (folder / "data.csv").read_bytes().split(b"\r\n")
    del lines[5]
    lines[4] = lines[4].removesuffix(b"yes") + b"no"
    return made.read_bytes() == b"\r\n".join(lines)


def _write_weights(folder: Path) -> None:
    """A linear network's weights that fit the table."""
    from safetensors.torch import save_file

    from datassay.data import load
    from datassay.models import build_model

    train, _ = load(folder / "data.csv")
    state = build_model("linear", train).state_dict()
    save_file({name: tensor.contiguous() for name, tensor in state.items()},
              folder / "weights.safetensors")  # fmt: skip


def _strict_json(folder: Path) -> str | None:
    def refuse(word: str) -> None:
        raise ValueError(word)

    for file in folder.rglob("summary.json"):
        try:
            json.loads(file.read_text("utf-8"), parse_constant=refuse)
        except ValueError as error:
            return f"summary.json is no strict JSON: {error}"
    return None
