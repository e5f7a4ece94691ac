"""Bugs drawn by a seed: one place of the source is changed, and the tests nearest to it must fail.

    python tests/helpers/mutants.py --seed 1 --number 40 [--file WORD] [--seconds 600]

A comparison, a sign, `and`, a mask, a number or an end is flipped, `not` is dropped, a guard or a
call is left out, branches change places. What survives is printed: it does the same, and
then stands in EQUIVALENT, or a test is missing.

The tests are collected once and run once, by which it is known which of them run a line. A change
is then made in a fork, to the code of the functions that are there, and the tests that run its
lines are run: of these the nearest first, the quickest of them first, and no more of the others
than take MOST_SECONDS. A change outside functions is tried by a new process, in the same order.
"""

import argparse
import ast
import gc
import json
import os
import random
import re
import signal
import sys
import threading
import time
import types
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

sys.path.append(str(Path(__file__).parents[1]))
from helpers.planted import ROOT, changed, copied_source, in_fork, noticed

# What is changed, by group, and the files of tests nearest to it, the likeliest to notice first.
GROUPS = {
    "stats": {"stats.py": "test_stats.py data/test_groups.py"},
    "verdicts": {"commands/run/verdict.py": "commands/run/test_verdict.py"
                 " commands/run/test_before.py"},
    "corrections": {
        "act/review/corrections.py": "act/review commands/view/test_session.py",
        "act/review/decisions.py": "act/review commands/view/test_session.py",
        "act/review/judged.py": "act/review/test_judged.py act/review/test_gain.py",
        "act/review/remaining.py": "act/review/test_figures.py act/review/test_remaining.py"
        " act/review/test_judged.py",
    },
    "giving back": {"data/back": "data/back commands/apply"},
    "splits": {
        "data/assemble.py": "data/test_figures.py data/test_groups.py data/test_split.py"
        " data/test_load.py data/test_arguments.py data/test_tables.py data/test_samples.py"
        " data/test_source.py",
        "train/folds.py": "train/test_folds.py train/test_learner.py data/test_groups.py"
        " methods/purify/test_cross_fit.py",
    },
    "tables": {
        "data/tables/columns.py": "data/tables/test_figures.py data/test_columns.py"
        " data/tables/test_kinds.py data/test_tables.py",
        "data/tables/numerals.py": "data/tables/test_figures.py data/tables/test_numerals.py",
        "data/tables/numeric.py": "data/tables/test_figures.py data/test_float32.py"
        " data/test_columns.py data/tables/test_kinds.py",
        "data/tables/preparation.py": "data/tables/test_figures.py data/tables/test_kinds.py"
        " data/test_tables.py",
        "data/tables/leaks.py": "data/tables/test_figures.py data/tables/test_leaks.py",
        "data/tables/dates.py": "data/tables/test_figures.py data/tables/test_kinds.py"
        " data/test_columns.py",
    },
    "labels": {"score/labels": "score/labels score/test_label_issues.py data/test_groups.py"
               " commands/run/test_labels.py"},
    "effects": {
        "score/influence/first_order.py": "score/influence score/test_influence.py",
        "score/influence/linear.py": "score/test_linear_influence.py score/test_influence.py",
        "score/influence/checkpoints.py": "score/influence/test_checkpoints.py",
        "score/influence/segments.py": "score/influence/test_segments.py",
        "score/leave_one_out.py": "score/test_leave_one_out.py score/test_panels.py"
        " score/test_attribution.py",
    },
    "index": {"score/index": "score/index"},
    "journals": {"store/journal.py": "store/test_journal.py store/test_states.py"
                 " act/review/test_decisions.py"},
}  # fmt: skip
AREAS = {area: tests for group in GROUPS.values() for area, tests in group.items()}
# Changes that change nothing: the file and what a line of it becomes (what it was, where that is
# "pass" or "if False:"), with the reason.
_CLOSE, _AT_ONCE = "more features are looked at closely", "how many are computed at once"
_WHOLE = "else the whole journal is read, with the same end"
EQUIVALENT = {
    ("data/tables/numeric.py", "bound = 2 * (largest * 2.0**-24 + 2.0**(149)) * "
     "np.sqrt(2 * len(x))"): _CLOSE,
    ("data/tables/numeric.py", "low = x.max(axis=0).astype(np.float64)"): _CLOSE,
    ("data/tables/numeric.py", "width = max(2, _BLOCK // len(x))"): _AT_ONCE,
    ("data/tables/numerals.py", "signs = np.array([t.sign if t else 1 for t in templates])"
     "[template_idx]"): "what has no template is not read",
    ("data/tables/leaks.py", "np.add.at(rates, (self.y[among], predicted), 2.0)"):
     "they are divided by their sums",
    ("data/tables/numeric.py", "vectors = flat.reshape(len(values), -2)"): "any size",
    ("data/tables/leaks.py", "f1 = 3 * counts / (1 + counts.sum(1, keepdims=True))"):
     "only their order counts",
    ("data/assemble.py", "width = x.shape[1] if x.ndim == 2 else -2"): "no number of names either",
    ("data/back/in_memory.py", 'change = Change("", 1, keep, donor, number)'):
     "labels are no column of a table",
    ("train/folds.py", "order = np.lexsort((*flat.T, *x.T[::(1)]))"): "another order of its own",
    ("score/labels/ridge.py", "for group in members.split(max(2, PANEL_VALUES // n_values)):"):
     _AT_ONCE,
    ("score/labels/ridge.py", "slices = list(panels(n, b * basis.rows.shape[2] + len(shifts) * b * "
     "(b + 3 * c)))"): _AT_ONCE,
    ("score/labels/outliers.py", "curve = np.polynomial.Polynomial.fit(position, log_size, power, "
     "domain=[-1, 2])(position)"): "polynomials of a shifted position have the same values",
    ("score/labels/outliers.py", "position = 2 * (mean_ranks(output.numpy()) - 0.5) / n + 1"):
     "polynomials of a shifted position have the same values",
    ("data/assemble.py", "if is_double or not is_read: # of a table, each column was checked as it "
     "was read"): "float32 loses nothing of what it holds",
    ("data/assemble.py", "if source.val is not None or y_val is not None:"): "both or neither",
    ("data/tables/dates.py", 'if pc.any(pc.match_substring_regex(words, r"^\\d")).as_py():'):
     "all months of a form are written alike",
    ("data/tables/dates.py", 'first_of_month = (12 * (year - 1970) + np.clip(month, 1, 13) - 1)'
     '.astype("datetime64[M]")'): "a month above 12 is no date",
    ("stats.py", "ratio = 1.0"): "neither 0 nor 1 is much",
    ("store/journal.py", "file.seek(max(0, end - 1))"): _WHOLE,
    ("store/journal.py", "file.seek(max(1, end - 1))"): _WHOLE,
    ("store/journal.py", "file.seek(max(0, end + 1))"): _WHOLE,
    ("score/influence/first_order.py", "if q_rows is None and rows is None:"):
     "general products, of all rows, are the same",
    ("act/review/remaining.py", "if len(order) < BATCH:"): "a draw of as many is all in order",
    ("score/influence/checkpoints.py", "return np.interp(np.arange(1, max(steps) + 2), index, "
     "[logged[step] for step in index])"): "all that is averaged ends at the last step",
    ("score/influence/checkpoints.py", "time = _interpolate(rates, steps) * _interpolate(factors "
     "or {1: 1.0}, steps)"): "one number is the same at all steps",
    ("data/tables/leaks.py", "x = np.round(x, 12 - int(np.log10(np.nanmax(np.abs(x), initial=2)))) "
     "# exact up to rounding"): "of 1 to 2 the logarithm is 0 and less than 1",
    ("score/influence/linear.py", "self.values_each = (lin.rows_per_sample - 2) * rows.shape[2] + "
     "4 * len(partners)"): _AT_ONCE,
    ("score/influence/linear.py", "self.values_each = (lin.rows_per_sample + 2) * rows.shape[2] + "
     "5 * len(partners)"): _AT_ONCE,
    ("store/journal.py", 'if end or file.read(1) != b"\\n":'): _WHOLE,
    ("store/journal.py", 'if end and file.read(2) != b"\\n":'): "one byte is left",
    ("score/leave_one_out.py", "is_same_run = training.leave_out(2) == training.run"):
     "any number of samples tells",
    ("score/index/search.py", "if n_groups <= 2 * keep:"): "the best are the same",
    ("score/index/fidelity.py", "network, train=samples, removed=None, n=len(drawn) + m, "
     "progress=silent,"): "correlations of effects in another unit are the same",
    ("score/index/search.py", "if sum(len(packed) for _, packed, _ in pending) > ROWS_AT_ONCE:"):
     _AT_ONCE,
    ("store/journal.py", "end = file.seek(1, os.SEEK_END)"): _WHOLE,
    ("act/review/judged.py", "share = np.empty(1)"): "two are wanted",
    ("stats.py", "results = [PERHAPS if d.p <= 1 - LEVEL and d.gain >= 0 else SAME for d in "
     "differences]"): "of no gain p is large",
    ("data/assemble.py", "train = replace(samples, x=x[:, :1]).subset(train_idx)"):
     "another x takes its place",
    ("data/assemble.py", "n_strata = 1 if strata is None else len(np.unique(strata))"):
     "each part has one sample anyway",
    ("score/labels/likelihood.py", "if loss(new_intercepts, log_p) <= loss_before or size < "
     "SMALLEST_STEP:"): "halves of 1 are never 0.001",
    ("score/labels/outliers.py", "is_natural = is_bent and bool(p_wrong[stray].sum() <= FAR_PART * "
     "p_wrong.sum())"): "of sums of 0 the result is 0 either way",
    ("act/review/corrections.py", "return Corrections(keep, new_y, (new_y != y)"
     ".reshape(len(y), -1).all(axis=1), positions)"): "several labels a sample never change",
}  # fmt: skip
OPPOSITE = {
    ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="), ast.GtE: (">", "<"),
    ast.Eq: ("!=",), ast.NotEq: ("==",), ast.In: ("not in",), ast.NotIn: ("in",),
    ast.Is: ("is not",), ast.IsNot: ("is",), ast.Add: ("-",), ast.Sub: ("+",), ast.Mult: ("/",),
    ast.Div: ("*",), ast.BitAnd: ("|",), ast.And: ("or",), ast.Or: ("and",),
}  # fmt: skip
MOST_SECONDS = 15.0  # of the tests that are run for a change, by processor
ROUNDING = 1e-7  # an allowance for rounding may as well be twice as large
OPERATOR = re.compile(rb"is not\b|not in\b|is\b|in\b|and\b|or\b|[<>=!]=|[-+*/&<>]")
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all",
         "all": "any", "argmin": "argmax", "argmax": "argmin"}  # fmt: skip


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
        elif isinstance(value, float) and not 0 < value < ROUNDING:
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
    """Changes of each group in turn: area, file, first and last byte, what stands there then."""
    draw, source = random.Random(seed), ROOT / "src" / "datassay"
    places = []
    for group in GROUPS.values():
        files = [(area, str(file.relative_to(source))) for area in group
                 for file in sorted((source / area).rglob("*.py")) or [source / area]]  # fmt: skip
        changes = [(area, name, *change) for area, name in files if word in name
                   for change in Changes((source / name).read_text()).found]  # fmt: skip
        places.append(draw.sample(changes, min(len(changes), number)))
    rounds = [(i, group) for group, found in enumerate(places) for i in range(len(found))]
    return [places[group][i] for i, group in sorted(rounds)][:number]


def shown(mutant: tuple) -> tuple[str, str, str]:
    """The file with the line's number, the line, and what it becomes."""
    _, file, first, last, text = mutant
    plain = (ROOT / "src" / "datassay" / file).read_bytes()
    start, end = plain.rfind(b"\n", 0, first) + 1, plain.find(b"\n", last)
    line = plain[start:end].decode()
    new = (plain[start:first] + text + plain[last:end]).decode()
    number = plain.count(b"\n", 0, first) + 1
    return f"{file}:{number}", " ".join(line.split()), " ".join(new.split())


def is_equivalent(mutant: tuple) -> bool:
    """Whether a change is known to change nothing."""
    _, line, new = shown(mutant)
    return (mutant[1], line if new in {"pass", "if False:"} else new) in EQUIVALENT


def statement_lines(text: bytes, first: int) -> range:
    """The lines of the smallest statement around a byte; of one with a body its head."""
    line = text.count(b"\n", 0, first) + 1
    around = [n for n in ast.walk(ast.parse(text))
              if isinstance(n, ast.stmt) and n.lineno <= line <= n.end_lineno]  # fmt: skip
    node = min(around, key=lambda n: (n.end_lineno - n.lineno, -n.col_offset))
    body = getattr(node, "body", ())
    end = max(line, body[0].lineno - 1) if body else node.end_lineno
    return range(node.lineno, end + 1)


def functions_that_differ(before: types.CodeType, after: types.CodeType) -> list | None:
    """Pairs of outermost functions, as they were and as they are; None if other code differs."""
    parts = [[k for k in code.co_consts if isinstance(k, types.CodeType)]
             for code in (before, after)]  # fmt: skip
    rest = [(code.co_code, code.co_names, [repr(k) for k in code.co_consts if k not in inner])
            for code, inner in zip((before, after), parts, strict=True)]  # fmt: skip
    if rest[0] != rest[1]:
        return None
    pairs = []
    for old, new in zip(*parts, strict=True):
        if old == new:
            continue
        is_function = old.co_flags & 2 and not old.co_name.startswith("<")
        inner = [(old, new)] if is_function else functions_that_differ(old, new)
        if inner is None:
            return None
        pairs += inner
    return pairs


def functions_by_file() -> dict[str, list[types.FunctionType]]:
    """All functions that are there, by the file that they were read from."""
    gc.unfreeze()
    functions = defaultdict(list)
    for found in gc.get_objects():
        if type(found) is types.FunctionType:
            functions[found.__code__.co_filename].append(found)
    gc.freeze()  # a fork that looks for rubbish copies all that it looks at
    return functions


def swap(pairs: list, functions: list[types.FunctionType]) -> None:
    """Give functions, wherever they are held, their new code."""
    for old, new in pairs:
        named = [f for f in functions if f.__code__.co_qualname == old.co_qualname]
        exact = [f for f in named if f.__code__.co_firstlineno == old.co_firstlineno]
        for function in exact or named:
            function.__code__ = new


def number_within(seconds: list[float]) -> int:
    """How many tests, in this order, are run for a change."""
    return 1 + int((np.cumsum(seconds) < MOST_SECONDS).sum())


class Quickest:
    """Has pytest run the quickest tests first, no more than MOST_SECONDS of them."""

    def __init__(self, seconds: dict[str, float]):
        self.seconds = seconds  # by the test's name

    def pytest_collection_modifyitems(self, items: list) -> None:
        items.sort(key=lambda item: self.seconds[item.nodeid])
        del items[number_within([self.seconds[item.nodeid] for item in items]) :]


class Trials:
    """What pytest does with the tests: they must pass, then each change is tried, in forks."""

    def __init__(self, mutants: list[tuple], source: Path, end: float):
        self.mutants, self.source, self.end = mutants, source, end
        self.outcomes, self.trace = source.parent / "outcomes", source.parent / "trace"
        self.seconds = source.parent / "seconds"
        self.outcomes.write_text("[]")
        self.has_failed = False

    def pytest_runtest_logreport(self, report) -> None:
        self.has_failed |= report.failed

    def pytest_runtestloop(self, session) -> bool:
        """Note the outcome of each change: noticed, or None where it is outside functions."""
        if in_fork(lambda: self._note_lines(session.items)):
            raise session.Failed  # they would notice everything
        touching, seconds = json.loads(self.trace.read_text())
        results, functions = [], functions_by_file()
        for area, name, first, last, text in self.mutants:
            if time.monotonic() > self.end:
                break
            path = self.source / "datassay" / name
            plain = path.read_bytes()
            new = plain[:first] + text + plain[last:]
            lines = [f"{path}:{line}" for line in statement_lines(plain, first)]
            nearest = [str(ROOT / "tests" / word) for word in AREAS[area].split()]
            idx = sorted(
                {i for line in lines for i in touching.get(line, ())},
                key=lambda i: (not str(session.items[i].path).startswith((*nearest,)), seconds[i]),
            )
            del idx[number_within([seconds[i] for i in idx]) :]
            pairs = functions_that_differ(*(compile(t, path, "exec") for t in (plain, new)))

            def run(pairs=pairs, path=path, idx=idx):
                swap(pairs, functions[str(path)])
                tests = self._run([session.items[i] for i in idx])
                for i in idx:  # one that never ends is killed
                    signal.setitimer(signal.ITIMER_PROF, 5 + 5 * seconds[i])
                    next(tests)

            with changed(path, new):  # also for what a test starts
                limit = 60 + 10 * sum(seconds[i] for i in idx)
                results.append(None if pairs is None else bool(idx) and in_fork(run, limit))
            self.outcomes.write_text(json.dumps(results))
        return True

    def _run(self, items: list) -> Iterator[None]:
        """Run tests one after the other; raise where one fails."""
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.has_failed:
                raise AssertionError(item.nodeid)
            yield

    def _note_lines(self, items: list) -> None:
        """Run all tests; write which of them run a line, by number, and the seconds of each."""
        files = {str(self.source / "datassay" / name) for _, name, *_ in self.mutants}
        touching, seconds = defaultdict(set), []

        def note_line(frame, event, _):
            if event == "line":
                touching[f"{frame.f_code.co_filename}:{frame.f_lineno}"].add(len(seconds))
            return note_line

        def enter(frame, *_):
            return note_line if frame.f_code.co_filename in files else None

        threading.settrace(enter)
        sys.settrace(enter)
        for _ in self._run(items):
            seconds.append(sum(os.times()[:4]) - sum(seconds))
        lines = {line: sorted(numbers) for line, numbers in touching.items()}
        self.trace.write_text(json.dumps([lines, seconds]))
        self.seconds.write_text(
            json.dumps(dict(zip((i.nodeid for i in items), seconds, strict=True)))
        )


def tried(mutants: list[tuple], source: Path, end: float) -> list[bool]:
    """Whether each change is noticed by the tests of the areas, as far as there was time."""
    areas = " ".join(dict.fromkeys(" ".join(AREAS[area] for area, *_ in mutants).split()))
    trials = Trials(mutants, source, end)
    if noticed(areas, source, float("inf"), [trials]):
        log = (source.parent / "log").read_text()[-3000:]
        raise RuntimeError(f"{areas} must pass where nothing is changed:\n{log}")
    results = json.loads(trials.outcomes.read_text())
    seconds = json.loads(trials.seconds.read_text())
    for number, seen in enumerate(results):
        if seen is None:
            area, name, first, last, text = mutants[number]
            path = source / "datassay" / name
            plain = path.read_bytes()
            with changed(path, plain[:first] + text + plain[last:]):
                results[number] = noticed(AREAS[area], source, plugins=[Quickest(seconds)])
    return results


def main(arguments: list[str]) -> int:
    """Run what is drawn; how many survive that are not known to do the same."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--file", default="", help="only files whose path holds this")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="none begins later")
    given = parser.parse_args(arguments)
    mutants = drawn(given.seed, given.number, given.file)
    mutants = [mutant for mutant in mutants if not is_equivalent(mutant)]
    with copied_source() as source:
        results = tried(mutants, source, time.monotonic() + given.seconds)
    counts = {group: [0, 0] for group in GROUPS}  # noticed, tried
    for mutant, seen in zip(mutants, results, strict=False):
        if not seen:
            sys.stdout.write("{}\n    {}\n    {}\n".format(*shown(mutant)))
        group = next(group for group, areas in GROUPS.items() if mutant[0] in areas)
        counts[group] = [counts[group][0] + seen, counts[group][1] + 1]
    counts["all"] = np.sum([*counts.values()], axis=0).tolist()
    for group, (found, tries) in counts.items():
        if tries:
            low, high = binomtest(found, tries).proportion_ci(method="wilson")
            sys.stdout.write(f"{group}: {found} of {tries} ({low:.0%} to {high:.0%})\n")
    sys.stdout.write(f"seed {given.seed}: {sum(results)} of {len(results)} noticed\n")
    return len(results) - sum(results)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 99))
