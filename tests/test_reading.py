"""Names and docstrings that an engineer new to the code understands at once: counts that only fall.

A docstring of a function begins with a verb; a variable names a thing; a function is a verb and its
object. The words are a mirror: a name that a count takes for empty may stand where it is a thing.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import datassay

ROOT = Path(datassay.__file__).parent
# By folder: docstrings without a verb, names that are no thing, functions that are a participle. A
# figure may be lowered, never raised.
MOST = {
    ".": (0, 3, 0),
    "act": (0, 10, 4),
    "collect": (0, 0, 0),
    "commands": (0, 4, 1),  # `loaded`, which plug-ins call
    "complexity": (0, 0, 0),
    "data": (0, 0, 1),
    "estimators": (0, 0, 0),
    "lm": (0, 3, 0),
    "methods": (0, 6, 1),
    "models": (0, 0, 1),
    "polynomial": (0, 0, 0),
    "report": (0, 1, 3),
    "score": (0, 14, 0),
    "store": (0, 1, 0),
    "train": (0, 1, 0),
}
# Words that begin a docstring.
VERBS = """
abort accept accumulate add adjust aggregate align allocate allow append apply approximate ask
assemble assert assign attach attempt average balance begin bind bound build bundle cache calculate
calibrate call cast center change check choose clean clear clip clone close collect combine compare
compose compress compute concatenate configure construct consume continue convert copy correct
count crawl create cut cycle decide decode decompose decorate deduplicate define delete derive
describe deserialize detach detect determine differentiate disable discard dispatch display divide
draw drop dump embed emit enable encode enforce ensure enumerate escape estimate evaluate exclude
execute expand explain export extend extract fail fetch fill filter find finish fit flag flatten
flip fold follow format free freeze gather generate get give group guess handle hash hide hold
identify ignore import impute include index infer initialise initialize insert inspect install
interpolate intersect invert iterate join keep label launch let limit linearise linearize link list
listen load locate lock log look make map mark mask match measure merge mix mount move multiply
name narrow normalise normalize note notify observe offer omit open order overwrite pack pad parse
partition pass patch pause permute pick place plan plot point pop postpone predict prepare prepend
preserve print probe process produce profile project propagate propose prune publish pull purify
push put quantise quantize query queue raise rank read rebuild recode recognise recommend record
recover reduce refit refresh refuse register reject relabel release reload remember remove rename
render reorder repeat replace replay report represent request require rescale reset reshape resize
resolve restore retrain retrieve return reverse review rewrite roll rotate round route run sample
save say scale scan schedule score search seed select send separate serialise serialize serve set
shard share shift show shuffle simulate sketch skip slice smooth solve sort split spread stack
standardise standardize start state stop store strip submit subset subtract suggest sum summarise
summarize suppress swap switch take test tile time tokenize track train transform translate
traverse treat trim truncate try tune turn uncompress undo unfold unpack unregister unwrap update
upload use validate verify view visit wait walk warm warn watch weigh weight whiten withhold wrap
write yield zero
""".split()
# Words that name nothing.
EMPTY = """
about above after again ahead alike alone also any apart as asked at away back beside besides best
both by chosen each early else empty enough equal every few first found free from_ further given
gone held here how in_ kept known last late least left like likeliest likely made many more most
named near new next no none nothing of old on once one only open other others own part past plain
rest right said same seen several shown single so some still such taken tells that then there these
they this those through to together told toward tried used wanted what where whether which who
whole whose wide with within without wrong yet
""".split()
PARTICIPLE = re.compile(r"[a-z]+(ed|en|ept|ound|ade|old|aid)")
PROPERTIES = {"property", "cached_property", "setter"}


def begins_with_verb(docstring):
    word = re.match(r"[A-Za-z]*", docstring)[0].lower()
    return bool({word, word.removesuffix("s"), word.removesuffix("es")} & set(VERBS))


def offences(file):
    """Yield what each definition and assignment of a file counts as."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from of_function(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if node.id.strip("_") in EMPTY:
                yield "name"


def of_function(node):
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    yield from ("name" for argument in arguments if argument.arg.strip("_") in EMPTY)
    marks = {getattr(d, "id", getattr(d, "attr", "")) for d in node.decorator_list}
    if marks & PROPERTIES:
        return
    docstring, name = ast.get_docstring(node), node.name.strip("_")
    if docstring and not begins_with_verb(docstring):
        yield "docstring"
    is_dunder = node.name.endswith("__")
    if not is_dunder and (name in EMPTY or PARTICIPLE.fullmatch(name)) and name not in VERBS:
        yield "function"


def counts(folder):
    files = ROOT.glob("*.py") if folder == "." else (ROOT / folder).rglob("*.py")
    total = Counter(kind for file in files for kind in offences(file))
    return total["docstring"], total["name"], total["function"]


@pytest.mark.parametrize("folder", MOST)
def test_what_slows_a_first_reading_only_becomes_less(folder):
    assert all(n <= most for n, most in zip(counts(folder), MOST[folder], strict=True)), (
        f"{folder}: {counts(folder)} of at most {MOST[folder]}"
    )


def test_every_folder_is_counted():
    folders = {file.parent.relative_to(ROOT).parts[:1] for file in ROOT.rglob("*.py")}
    assert {(name,) if name != "." else () for name in MOST} == folders


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('def joined(own):\n    """The best, then others."""', {"docstring", "name", "function"}),
        ('def join_rows(rows):\n    """Return the rows, joined."""\n    table = rows', set()),
        ("@property\ndef kept(self):\n    left, right = self", {"name"}),
    ],
)
def test_the_counts_see_what_they_count(tmp_path, source, expected):
    file = tmp_path / "module.py"
    file.write_text(source)
    assert set(offences(file)) == expected
