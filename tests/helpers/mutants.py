"""Bugs drawn by a seed: one place of the source is changed, and the tests nearest to it must fail.

    python tests/helpers/mutants.py --seed 1 --number 40 [--file WORD] [--seconds 600]

A comparison, a sign, `and`, a mask, a number or the ends of a range are flipped, `not` is dropped, a
guard or a call is left out, branches change places. What survives is printed: it does the same, and
then stands in EQUIVALENT, or a test is missing.
"""

import argparse
import ast
import compileall
import importlib
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What is changed, and the files of tests that are nearest to it, the likeliest to notice first.
AREAS = {
    "stats.py": "test_stats.py act/choose/test_acts.py",
    "commands/run/verdict.py": "commands/run/test_verdict.py commands/run/test_job.py",
    "act/review/corrections.py": "act/review/test_corrections.py act/review/test_decisions.py",
    "act/review/decisions.py": "act/review/test_decisions.py act/review/test_corrections.py",
    "act/review/judged.py": "act/review/test_judged.py act/review/test_gain.py",
    "act/review/remaining.py": "act/review/test_remaining.py act/review/test_judged.py",
    "data/back": "data/back commands/apply",
    "data/assemble.py": "data/test_groups.py data/test_split.py data/test_load.py data/test_arguments.py"
    " data/test_tables.py",
    "train/folds.py": "train/test_learner.py data/test_groups.py act/test_cross_fit.py",
    "data/tables/columns.py": "data/test_columns.py data/tables/test_kinds.py data/test_tables.py",
    "data/tables/numerals.py": "data/tables/test_numerals.py",
    "data/tables/numeric.py": "data/tables/test_numerals.py data/tables/test_kinds.py",
    "data/tables/preparation.py": "data/tables/test_kinds.py data/test_tables.py",
    "data/tables/leaks.py": "data/tables/test_leaks.py",
    "data/tables/dates.py": "data/tables/test_kinds.py data/test_columns.py",
    "score/labels": "score/labels score/test_label_issues.py",
    "score/influence/first_order.py": "score/influence score/test_influence.py",
    "score/influence/linear.py": "score/test_linear_influence.py score/test_influence.py",
    "score/influence/checkpoints.py": "score/influence/test_checkpoints.py",
    "score/influence/segments.py": "score/influence/test_segments.py",
    "score/leave_one_out.py": "score/test_leave_one_out.py",
    "score/index": "score/index commands/index",
    "store/journal.py": "store/test_journal.py store/test_states.py act/review/test_decisions.py",
}  # fmt: skip
# Changes that change nothing: the file, the line and what it becomes, with the reason.
EQUIVALENT: dict[tuple[str, str], str] = {}
OPPOSITE = {
    ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="), ast.GtE: (">", "<"),
    ast.Eq: ("!=",), ast.NotEq: ("==",), ast.In: ("not in",), ast.NotIn: ("in",),
    ast.Is: ("is not",), ast.IsNot: ("is",), ast.Add: ("-",), ast.Sub: ("+",), ast.Mult: ("/",),
    ast.Div: ("*",), ast.BitAnd: ("|",), ast.And: ("or",), ast.Or: ("and",),
}  # fmt: skip
OPERATOR = re.compile(rb"is not\b|not in\b|is\b|in\b|and\b|or\b|[<>=!]=|[-+*/&<>]")
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all",
         "all": "any", "argmin": "argmax", "argmax": "argmin", "floor": "ceil", "ceil": "floor"}  # fmt: skip
WORKS = ("torch._dynamo", "torch.func", "sklearn.linear_model", "sklearn.ensemble", "zarr", "pandas",
         "pyarrow.parquet", "PIL.Image", "pytest", "scipy.stats", "hypothesis", "beartype", "plotly")  # fmt: skip


class Changes(ast.NodeVisitor):
    """All changes of a file: first and last byte, and what stands there instead."""

    def __init__(self, text: str):
        self.text, self.found = text.encode(), []
        lengths = [len(line) for line in self.text.splitlines(keepends=True)]
        self._starts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
        self.visit(ast.parse(text))

    def first(self, node: ast.AST) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def last(self, node: ast.AST) -> int:
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def source(self, node: ast.AST) -> bytes:
        return self.text[self.first(node) : self.last(node)]

    def become(self, node: ast.AST, text: bytes) -> None:
        self.found.append((self.first(node), self.last(node), text))

    def between(self, left: ast.AST, right: ast.AST, operator: ast.AST) -> None:
        match = OPERATOR.search(self.text, self.last(left), self.first(right))
        for other in OPPOSITE.get(type(operator), ()) if match else ():
            self.found.append((*match.span(), other.encode()))

    def visit_JoinedStr(self, node):
        """Positions in them are wrong before Python 3.12; and they are words."""

    def visit_Raise(self, node):
        """What an error says is not a matter of this."""

    visit_Assert = visit_Import = visit_ImportFrom = visit_Raise

    def visit_arg(self, node):
        """Annotations do nothing."""

    def visit_AnnAssign(self, node):
        if node.value:
            self.visit(node.value)

    def visit_FunctionDef(self, node):
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        for statement in node.body:
            self.visit(statement)

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call) and b"progress" not in self.source(node.value.func):
            self.become(node, b"pass")
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_If(self, node):
        if not node.orelse and isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue):
            self.become(node.test, b"False")
        self.generic_visit(node)

    def visit_IfExp(self, node):
        parts = [self.source(part) for part in (node.orelse, node.test, node.body)]
        self.become(node, b"(%b) if (%b) else (%b)" % tuple(parts))
        self.generic_visit(node)

    def visit_Compare(self, node):
        parts = [node.left, *node.comparators]
        for left, right, operator in zip(parts, parts[1:], node.ops, strict=False):
            self.between(left, right, operator)
        self.generic_visit(node)

    def visit_BinOp(self, node):
        if not any(isinstance(n, ast.JoinedStr) or isinstance(getattr(n, "value", 0), str)
                   for n in (node.left, node.right)):  # fmt: skip
            self.between(node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        self.between(node.values[0], node.values[1], node.op)
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        self.become(node, b"(%b)" % self.source(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node):
        value = node.value
        if isinstance(value, bool):
            self.become(node, str(not value).encode())
        elif isinstance(value, int):
            self.become(node, str(value + 1).encode())
        elif isinstance(value, float):
            self.become(node, repr(2 * value or 1.0).encode())

    def visit_keyword(self, node):
        if node.arg != "strict":  # of zip, which guards our own logic
            self.visit(node.value)

    def visit_Call(self, node):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in NAMES:
            end = self.last(node.func)
            self.found.append((end - len(name), end, NAMES[name].encode()))
        if name == "where" and len(node.args) == 3:
            _, a, b = map(self.source, node.args)
            start, end = self.first(node.args[1]), self.last(node.args[2])
            self.found.append((start, end, b"%b, %b" % (b, a)))
        self.generic_visit(node)


def drawn(seed: int, number: int, word: str = "") -> list[tuple[str, str, int, int, bytes]]:
    """Changes, one area after the other: area, file, first and last byte, what stands there then."""
    draw, source = random.Random(seed), ROOT / "src" / "datassay"
    places = {}
    for area in AREAS:
        path = source / area
        files = [path] if path.suffix else sorted(path.rglob("*.py"))
        files = [f for f in files if word in str(f.relative_to(source))]
        all_of = [(area, str(f.relative_to(source)), *change)
                  for f in files for change in Changes(f.read_text()).found]  # fmt: skip
        if all_of:
            places[area] = draw.sample(all_of, min(len(all_of), number))
    rounds = [(i, area) for area in places for i in range(len(places[area]))]
    return [places[area][i] for i, area in sorted(rounds, key=lambda pair: pair[0])][:number]


def ended(tests: str, source: Path, limit: float) -> tuple[bool, float]:
    """Whether tests fail, or go on beyond the limit, where datassay is imported from there."""
    start = time.monotonic()
    pid = os.fork()
    if not pid:
        os.setsid()
        os.dup2(os.open(source.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        os.chdir(ROOT)
        os.environ["PYTHONPATH"] = os.pathsep.join((str(source), os.environ.get("PYTHONPATH", "")))
        sys.path[:0] = [str(source), str(ROOT / "tests")]
        code = 1
        try:
            code = _pytest(tests, source.parent)
        finally:
            sys.stdout.flush()
            os._exit(code)
    while not (done := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() - start > limit:
            os.killpg(pid, signal.SIGKILL)
            done = os.waitpid(pid, 0)
            break
        time.sleep(0.02)
    return done[1] != 0, time.monotonic() - start


def _pytest(tests: str, work: Path) -> int:
    import pytest

    files = [str(ROOT / "tests" / name) for name in tests.split()]
    options = ["-xq", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist",
               f"--basetemp={work / 'pytest'}", "-m", "not slow and not typed and not browser",
               "--rootdir", str(ROOT)]  # fmt: skip
    return int(pytest.main([*files, *options]))


def survives(mutant: tuple, source: Path, limit: float) -> bool:
    """Whether the tests pass with a change."""
    area, file, first, last, text = mutant
    path = source / "datassay" / file
    plain, about = path.read_bytes(), path.stat()
    for kept in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        kept.unlink()
    path.write_bytes(plain[:first] + text + plain[last:])
    try:
        return not ended(AREAS[area], source, limit)[0]
    finally:
        path.write_bytes(plain)
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def shown(mutant: tuple) -> tuple[str, str, str]:
    """The file with the line's number, the line, and what it becomes."""
    _, file, first, last, text = mutant
    plain = (ROOT / "src" / "datassay" / file).read_bytes()
    start, end = plain.rfind(b"\n", 0, first) + 1, plain.find(b"\n", last)
    line = plain[start:end].decode()
    new = (plain[start:first] + text + plain[last:end]).decode()
    number = plain.count(b"\n", 0, first) + 1
    return f"{file}:{number}", " ".join(line.split()), " ".join(new.split())


def main(arguments: list[str]) -> int:
    """Run what is drawn; how many survive that are not known to do the same."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--file", default="", help="only files whose path holds this")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="none begins later")
    given = parser.parse_args(arguments)
    for name in WORKS:
        importlib.import_module(name)
    begin, survivors, number = time.monotonic(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(source, quiet=1)
        limits = {}
        for mutant in drawn(given.seed, given.number, given.file):
            if time.monotonic() - begin > given.seconds:
                break
            place, line, new = shown(mutant)
            if (place.partition(":")[0], new) in EQUIVALENT:
                continue
            if (area := mutant[0]) not in limits:
                sys.dont_write_bytecode = False
                failed, seconds = ended(AREAS[area], source, 600)
                if failed:
                    log = (source.parent / "log").read_text()[-3000:]
                    raise RuntimeError(f"{AREAS[area]} must pass where nothing is changed:\n{log}")
                limits[area] = 20 + 4 * seconds
            sys.dont_write_bytecode = True
            number += 1
            if survives(mutant, source, limits[area]):
                survivors.append(mutant)
                sys.stdout.write(f"{place}\n    {line}\n    {new}\n")
                sys.stdout.flush()
    sys.stdout.write(f"seed {given.seed}: {number - len(survivors)} of {number} noticed\n")
    return len(survivors)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 99))
