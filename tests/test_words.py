"""Words: what people read, and public names, use the field's; the old ones do not come back."""

import ast
import dataclasses
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

from datassay.commands import app

REPOSITORY = Path(__file__).parents[1]
ROOT = REPOSITORY / "src/datassay"

OLD = re.compile(
    r"(?<![\w./\"`-])(acts?|mend(s|ed|ing)?|rivals?|spoil(s|ed|t)?|twins?|beside|gone|told|house|"
    r"faces?|who won|as many again|judges? the labels|decompose|sp(eaks?|oke) (for|against)|stand "
    r"for each other|(a|one) \w+ an? (sample|model|class|row|query|seed|block|run))(?![\w/\"`])",
    re.IGNORECASE,
)
NAMES = "acts? mend(ed|ing)? rivals? spoil(ed|t) twins? beside gone told said faces? found places?"
OLD_NAME = re.compile(rf"(^|_)({NAMES.replace(' ', '|')})(_|$)", re.IGNORECASE)
ALLOWED = {  # and why
    r"!! act \||(##!?|\[\[) acts \|": "how urgent an advice is; the anchor of a section",
    r"Hugging Face|mend-data\.md": "names",
    r"\.acts\b|datassay\.act\b": "DESIGN.md: Assay.acts, and the public module of actions",
}
ALLOWED_NAMES = {("datassay", "act"), ("Assay", "acts"), ("Remaining", "errors_found")}  # as above
# What is rewritten now. Empty when all of it is merged.
PENDING = ()
CODE = re.compile(r"```.*?```|`[^`\n]*`|<[^<>\n]*>|\{%.*?%\}|(?<=\{\{)[^\"{}]*", re.DOTALL)


def old(text):
    return [m[0] for m in OLD.finditer(re.sub("|".join(ALLOWED), "", text))]


@cache
def trees():
    return {str(f.relative_to(ROOT)): ast.parse(f.read_text("utf-8")) for f in ROOT.rglob("*.py")}


def pages():
    for kind in ("src/**/*.j2", "src/**/*.html", "docs/**/*.md", "README.md"):
        for path in REPOSITORY.glob(kind):
            yield str(path.relative_to(REPOSITORY)), CODE.sub("", path.read_text("utf-8"))


def errors():
    for file, tree in trees().items():
        nodes = [n for e in ast.walk(tree) if isinstance(e, ast.Raise) for n in ast.walk(e)]
        yield file, "\n".join(str(n.value) for n in nodes if isinstance(n, ast.Constant))


def helps():
    for name, command in get_command(app).commands.items():
        texts = (command.help, *(getattr(option, "help", "") for option in command.params))
        yield f"help of {name}", "\n".join(filter(None, texts))


def public():
    for step in ("datassay", *(f"datassay.{p.parent.name}" for p in ROOT.glob("*/__init__.py"))):
        module = importlib.import_module(step)
        yield from ((step, n, getattr(module, n)) for n in getattr(module, "__all__", ()))


def first_lines():
    return ((f"{s}.{n}", (inspect.getdoc(x) or "").split("\n")[0]) for s, n, x in public())


def test_no_sentence_names_a_variable_of_its_function():
    """A variable that is renamed by its word takes that word out of sentences as well."""
    functions = [f for tree in trees().values() for f in ast.walk(tree)
                 if isinstance(f, ast.FunctionDef)]  # fmt: skip
    public_names = {a.arg for f in functions for a in (*f.args.args, *f.args.kwonlyargs)}
    wrong, n_sentences = [], 0
    for function in functions:
        nodes = list(ast.walk(function))
        stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        names = {name for name in stored if "_" in name.strip("_")} - public_names
        texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        sentences = [t for t in texts if " " in t.strip() and t != ast.get_docstring(function, 0)]
        n_sentences += len(sentences)
        wrong += [t for t in sentences if names & set(re.findall(r"\w+", t))]
    assert n_sentences > 1000 and not wrong


@pytest.mark.parametrize("texts", [pages, errors, helps, first_lines])
def test_what_people_read_has_no_old_word(texts):
    read = {where: old(text) for where, text in texts() if not where.startswith(PENDING)}
    assert len(read) > 10 and not {where: words for where, words in read.items() if words}


def test_public_names_and_keys_of_summaries_have_no_old_word():
    names = set()
    for step, name, thing in public():
        own = [f.name for f in dataclasses.fields(thing)] if dataclasses.is_dataclass(thing) else []
        own += vars(thing) if inspect.isclass(thing) else []
        own += inspect.signature(thing).parameters if inspect.isfunction(thing) else []
        names |= {(step, name), *((name, one) for one in own if not one.startswith("_"))}
    for file, tree in trees().items():
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        written = [f for f in functions if f.name.endswith(("summary", "files", "to_table"))]
        texts = (getattr(n, "value", None) for f in written for n in ast.walk(f))
        names |= {(file, s) for s in texts if isinstance(s, str) and s.isidentifier()}
    wrong = [n for n in names - ALLOWED_NAMES if OLD_NAME.search(n[1])]
    assert len(names) > 500 and not wrong
