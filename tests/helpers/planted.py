"""Bugs planted in a copy of the source, each to be noticed by a few tests or cases of the attack.

    python tests/helpers/planted.py [WORD ...]    # a table; those whose words are named

A test is a file, or a file and a word of its tests' names; `kind: 0-9` are cases of the attack. All
that are named run first on the copy without a bug, where they must pass.
"""

import compileall
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SEED = 41
# What is planted, where, the text, what it becomes, and who must notice.
BUGS = [
    ("labels shifted by a row", "data/targets.py", "return indices.astype(np.int64)\n\n",
     "return np.roll(indices, 1).astype(np.int64)\n\n", "tables: 0-4"),
    ("x reversed against y in .npz", "data/formats/npz.py", 'Part(arrays["x"], arrays["y"], a',
     'Part(arrays["x"][::-1], arrays["y"], a', "data/test_npz.py"),
    ("inverted pixels", "data/pictures.py", "dtype=np.float32) / 255  #",
     "dtype=np.float32) / -255 + 1  #", "data/test_images.py round_trip"),
    ("the row before is removed", "act/review/corrections.py", "keep[[position for",
     "keep[[position - 1 for", "act/review/test_corrections.py"),
    ("no digests of the feature store", "store/features.py", "if not np.array_equal(digests[",
     "if False and not np.array_equal(digests[", "store/test_features.py another_run"),
    ("a killed write is not put back", "store/folders.py", "                    _roll_back(",
     "                    (lambda *_: None)(", "store/test_states.py between_two_system_calls"),
    ("the row of a label without its class", "data/formats/image_folder.py",
     "labels.extend([class_folder.name]", "labels.extend([folders[0].name]",
     "data/test_images.py folder"),
    ("IDX labels in another order", "data/formats/idx.py", "copy=False), read_idx(labels)",
     "copy=False), read_idx(labels)[::-1]", "data/test_images.py idx"),
    ("rows of a table sorted", "data/assemble.py", "np.arange(len(x)) if raw.ids is None",
     "np.arange(len(x))[::-1] if raw.ids is None", "tables: 0-29"),
    ("targets with twelve digits", "data/tables/numerals.py", "return repr(float(value))",
     'return f"{value:.12g}"', "data/tables/test_numerals.py same_number"),
    ("underscores in numbers", "data/tables/numerals.py",
     "not re.fullmatch(NUMBER, text, re.ASCII) or", "", "data/tables/test_numerals.py no_numeral"),
    ("whole targets as floats", "data/back/original.py", 'in "iuf" and', 'in "" and',
     "commands/apply/test_command.py keep_their_digits"),
    ("npz labels narrowed", "data/formats/npz.py", "np.result_type(stored, result.astype(str))",
     "str", "data/back/test_originals.py archive"),
    ("new ids are the old", "data/back/change.py", "return (ids - np.cumsum(~keep))[keep]\n",
     "return ids[keep]\n", "commands/apply/test_command.py move_up"),
    ("the label of another row", "data/back/change.py", "first_of_class[int(labels[i])] for",
     "first_of_class[int(y[i])] for", "data/back/test_originals.py text_changes"),
    ("no lock of the decisions", "commands/view/session.py", "with hold_lock(self.path.parent):",
     "with suppress(KeyError):", "servers: 0-30"),
    ("another's decisions are overwritten", "commands/view/session.py",
     "or state(self.path) == self._state", "or True", "servers: 0-30"),
    ("a half line stays", "store/journal.py", 'if end and file.read(1) != b"\\n":', "if False:",
     "store/test_journal.py"),
    ("a journal counts for any file", "store/journal.py", "or base == file_digest(path)", "or True",
     "store/test_journal.py"),
    ("a failed line stays", "store/journal.py", "            file.truncate(end)\n            raise",
     "            raise", "store/test_journal.py"),
    ("decided twice", "act/review/decisions.py", "if len(by_id) < len(rows):", "if False:",
     "act/review/test_decisions.py two_decisions"),
    ("true is an id", "act/review/decisions.py", "type(sample_id) in (str, int)",
     "isinstance(sample_id, str | int)", "act/review/test_decisions.py another_kind"),
    ("a missing part of an index", "score/index/opening.py", "if number < len(noted):",
     "if False:", "score/index/test_index.py gone_is_missed"),
    ("an index of other weights", "score/index/opening.py", " check_model(manifest, model, folder)",
     " pass", "score/index/test_index.py what_changed"),
    ("a loss is ignored", "score/index/identity.py", 'if not manifest["function"] and name not in',
     "if False and name not in", "score/index/test_index.py users_must_be_given"),
    ("classes in the estimator's order", "models/estimators.py",
     "columns[:, classes.astype(np.int64)] = values", "columns[:, : len(classes)] = values",
     "score/labels/test_cross_validated.py columns_are_read"),
    ("negative probabilities", "rules.py", "(values >= 0).all(1) & ", "",
     "test_rules.py refuses"),
    ("zero is positive", "rules.py", "require(number > 0 and not (finite",
     "require(number >= 0 and not (finite", "test_rules.py refuses"),
    ("half the interval", "stats.py", "stdtrit(freedom, (1 + level) / 2)",
     "stdtrit(freedom, (1 + level) / 4 + 0.25)", "test_stats.py students"),
    ("effects the other way round", "score/leave_one_out.py", "held_out=(outputs - by_presence)",
     "held_out=(outputs + by_presence)", "score/test_leave_one_out.py definition"),
    ("effects of an index in its own order", "commands/explain/indexed.py",
     "position[effects.top.raising],", "effects.top.raising,", "explain: 0-5"),
    ("effects reversed on halves", "score/compare/trust.py", "mean_ranks(member @ effect,",
     "mean_ranks(member @ effect[::-1],", "score/test_trust.py"),
    ("context counts as learned", "lm/samples.py", "labels[: max(counted_from - begin, 1)]",
     "labels[: 1]", "lm/test_samples.py"),
    ("another model's index", "lm/effects.py",
     "        check_model(index.manifest, model, index.location)\n", "",
     "lm/test_index.py refusals and another"),
    ("groups split in another order", "data/assemble.py", "fold[by_id] = group_folds(",
     "fold = group_folds(", "data/test_groups.py order_of_the_rows"),
    ("a row behind one without a label", "data/back/original.py", "stays[rows[~keep]] = False",
     "stays[: len(keep)][~keep] = False", "data/back/test_originals.py without_a_label_is"),
    ("an exported block is another's", "methods/partition/blocks.py",
     '"block": self.block, "responsibility"', '"block": self.block[::-1], "responsibility"',
     "methods/partition/test_partition.py own_block"),
    ("cards of what is harmless", "commands/run/verdict.py", 'if issue.severity == "act"):',
     'if issue.severity != "act"):', "commands/run/test_verdict.py read_by_a_person"),
    ("freedom of the test of parts", "stats.py", "chdtrc(n - 1, (n - 1)", "chdtrc(n, (n - 1)",
     "test_stats.py parts"),
    ("no floor of an error", "stats.py", "max(by_seed, by_sample, by_seed +", "max(0.0, by_seed +",
     "test_stats.py no_error_is_less"),
    ("no floor by the base", "stats.py", "by_seed = max(by_seed, float(share @ base_variance))",
     "by_seed = min(by_seed, float(share @ base_variance))", "test_stats.py no_error_is_less"),
    ("weights of any scale", "train/learner.py", "weights[idx] / weights[idx].mean()",
     "weights[idx]", "train/test_learner.py"),
    ("a new category is nothing", "data/tables/preparation.py", '"infrequent_if_exist"', '"ignore"',
     "data/tables/test_kinds.py rare_categories"),
    ("every decision was kept", "commands/run/steps/before.py",
     'for row in log.rows if row["decision"] == KEEP}', "for row in log.rows}",
     "commands/run/test_before.py judged_by_fifths"),
    ("formulas in the changelog", "data/back/original.py", '"-", "@", "\\t", "\\r")', '"@")',
     "data/back/test_originals.py formula"),
    ("labels to sorted positions", "act/review/corrections.py", "new_y[changed] = labels",
     "new_y[np.sort(changed)] = labels", "act/review/test_corrections.py whatever_order"),
    ("before and after swapped", "report/tables.py", "for v in (row.before, row.after)]",
     "for v in (row.after, row.before)]", "commands/run/test_verdict.py before_a_review"),
    ("ours held against the worst other", "score/compare/trust.py", "max(trivial_names,",
     "min(trivial_names,", "score/test_trust.py best_of_what_is_free"),
    ("a killed apply loses both folders", "store/atomic.py", "is_pending = (folder / NEW).is_dir()",
     "is_pending = False", "store/test_states.py killed_apply"),
    ("a full disk ends a review", "commands/view/session.py", "            finally:  # a journal",
     "            else:  # a journal", "commands/view/test_session.py full_once"),
    ("suspects of another group", "commands/run/tables.py", "is_issue[labels == totals.names[g]]",
     "is_issue[labels == totals.names[len(rows)]]", "commands/run/test_queries.py add_up"),
    ("percentiles counted downwards", "commands/run/suspects.py", "np.argsort(np.argsort(infor",
     "np.argsort(np.argsort(-infor", "commands/run/test_files.py each_column"),
    ("chances of other candidates", "act/remove/summarize.py", "classes[idx], p_right[idx],",
     "classes[idx], p_right[: len(idx)],", "act/test_act.py candidate"),
    ("ids beyond 2^63 wrap around", "data/assemble.py", "values.max() < 2**63:",
     "values.min() < 2**63:", "data/test_samples.py names_of_samples"),
    ("missing words count as unread", "data/tables/numerals.py",
     "len(words) - words.null_count - int(is_mark.sum())\n    if not",
     "len(words) - int(is_mark.sum())\n    if not", "data/tables/test_numerals.py count_neither"),
    ("other columns are not compared", "data/back/original.py",
     ".as_py():\n                return name\n", ".as_py():\n                continue\n",
     "data/back/test_originals.py nobody_decided"),
]  # fmt: skip


def noticed(tests: str, source: Path, limit: float = 600.0, plugins: Sequence[Any] = ()) -> bool:
    """Whether tests fail, cases of the attack do, or take longer, where datassay is of there."""

    def run() -> None:
        os.dup2(os.open(source.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        os.environ["PYTHONPATH"] = os.pathsep.join((str(source), os.environ.get("PYTHONPATH", "")))
        sys.path[:0] = [str(source), str(ROOT / "tests")]
        failed = True
        try:
            failed = _fail(tests, source.parent, plugins)
        finally:  # a bug may also show as an error
            sys.stdout.flush()
            os._exit(failed)

    return in_fork(run, limit)


def in_fork(work: Callable[[], None], limit: float = float("inf")) -> bool:
    """Whether work fails, or takes longer, in a process that begins as this one is."""
    pid, end = os.fork(), time.monotonic() + limit
    if not pid:
        os.setsid()
        try:
            work()
            os._exit(0)
        finally:  # a bug may also show as an error
            traceback.print_exc()
            os._exit(1)
    while not (ended := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.005)
    if not ended[0]:
        os.killpg(pid, signal.SIGKILL)
        ended = os.waitpid(pid, 0)
    return ended[1] != 0


def _fail(tests: str, work: Path, plugins: Sequence[Any]) -> bool:
    if ": " not in tests:
        import pytest

        files = [word for word in tests.split() if "/" in word or word.endswith(".py")]
        words = " ".join(word for word in tests.split() if word not in files)
        options = ["-xqp", "no:cacheprovider", "-p", "no:randomly", f"--basetemp={work / 'pytest'}",
                   "-m", "not slow and not typed and not browser",
                   "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # fmt: skip
        # Types are not checked, which takes longer; what commands and texts share is needed.
        is_shared = not words and ("commands/" in tests or "lm/" in tests)
        options += [] if is_shared else ["--noconftest"]
        arguments = [*(str(ROOT / "tests" / f) for f in files), *options, "-k", words]
        return pytest.main(arguments, plugins=[*plugins]) != 0
    from helpers.attack.case import empty, tried

    kind, _, last = tests.partition(": 0-")
    draw, folder = importlib.import_module(f"helpers.attack.{kind}").case, work / kind / "case"
    cases = (draw(random.Random(f"{kind} {SEED} {number}"), empty(folder))
             for number in range(int(last) + 1))  # fmt: skip
    for case in cases:
        ended, wrong = tried(case, folder, 60.0)
        if wrong:
            sys.stdout.write(f"{case.name}: {wrong}\n{ended.err[-2000:]}\n")
            return True
    return False


@contextmanager
def changed(path: Path, content: bytes) -> Iterator[None]:
    """A file of the copy with other content; what was compiled of it is of the old."""
    plain, about = path.read_bytes(), path.stat()
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(plain)
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def planted(bug: tuple, source: Path) -> bool:
    """Whether a bug is noticed."""
    what, file, old, new, tests = bug
    path = source / "datassay" / file
    text = path.read_text()
    if text.count(old) != 1:
        raise RuntimeError(f"{what}: {file} must hold {old!r} once, not {text.count(old)} times")
    with changed(path, text.replace(old, new).encode()):
        return noticed(tests, source)


@contextmanager
def copied_source() -> Iterator[Path]:
    """A copy of the source, compiled; what is slow to import is there for all children."""
    for name in ("torch._dynamo", "torch.func", "sklearn.linear_model", "zarr", "pyarrow.parquet",
                 "PIL.Image", "pytest", "scipy.stats", "hypothesis", "pandas", "sklearn.ensemble",
                 "beartype"):  # fmt: skip
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(source, quiet=1)
        sys.dont_write_bytecode = True
        yield source


def check(tests: str, source: Path) -> None:
    """Refuse tests that fail where nothing is changed: they would notice everything."""
    if noticed(tests, source):
        log = (source.parent / "log").read_text()[-3000:]
        raise RuntimeError(f"{tests} must pass where no bug is planted:\n{log}")


def _longest(tests: list[str]) -> list[str]:
    """Each once; of cases of the attack, those that the others begin with."""
    last = {t.partition(": 0-")[0]: int(t.partition(": 0-")[2] or 0) for t in sorted(
        tests, key=lambda t: int(t.partition(": 0-")[2] or 0))}  # fmt: skip
    return [f"{kind}: 0-{n}" if n else kind for kind, n in last.items()]


def main(words: list[str]) -> int:
    """Plant all bugs, or those whose words are named; a row each, and how many were missed."""
    bugs = [bug for bug in BUGS if not words or any(word in bug[0] for word in words)]
    missed = 0
    with copied_source() as source:
        for tests in _longest([bug[4] for bug in bugs]):
            check(tests, source)
        for bug in bugs:
            seen = planted(bug, source)
            missed += not seen
            sys.stdout.write(f"{bug[0]} ({bug[1]}): {bug[4] if seen else 'nobody'}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(bugs) - missed} of {len(bugs)} noticed\n")
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
