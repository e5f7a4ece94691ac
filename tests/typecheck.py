"""The core's types and shapes, checked as the tests run: beartype, with jaxtyping for shapes."""

import contextlib
import functools
import inspect
import re
import typing

import jaxtyping
from beartype import BeartypeConf, beartype

# An integer is a float, as PEP 484 says and users expect.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
_of_jaxtyping = jaxtyping.jaxtyped
_seen: set[object] = set()
MOST = 20  # calls of one function whose shapes are checked in one test
_test = 0


def install(packages):
    """Check all functions and classes of these packages.

    jaxtyping's own decorator makes two functions of each that it decorates, and binds and checks
    the arguments of each call twice. Here beartype checks once, in a context of jaxtyping where an
    annotation has a shape; a generator, whose body runs in another context, stays with jaxtyping.
    A function within a function is checked as it is first made.
    """
    jaxtyping.jaxtyped = _jaxtyped  # which the hook looks up in each module
    jaxtyping.install_import_hook(packages, "typecheck.checked")


def next_test():
    """Shapes are checked again, in MOST calls of each function."""
    global _test
    _test += 1


def _jaxtyped(*, typechecker):
    def decorate(made):
        if inspect.isclass(made):
            plain = made.__init__
            made = _of_jaxtyping(typechecker=typechecker)(made)
            if made.__init__ is not plain:  # of a dataclass
                made.__init__ = _at_first(lambda checked=made.__init__: checked, plain)
            return made
        if not inspect.isfunction(made) or inspect.isgeneratorfunction(made):
            return _of_jaxtyping(typechecker=typechecker)(made)
        if "<locals>" in made.__qualname__:
            if made.__code__ in _seen:
                return made
            _seen.add(made.__code__)
        return _at_first(lambda: _made_checked(made), made)

    return decorate


def _made_checked(made):
    if any(_has_shape(hint, made.__globals__) for hint in made.__annotations__.values()):
        return _with_shapes(_checked(made))
    return _checked(made)


def _has_shape(hint, names):
    """Whether an annotation is a type of jaxtyping, or a word of its text stands for one."""
    words = re.findall(r"[A-Za-z_]\w*", str(hint))
    return "jaxtyping" in str(hint) or any("jaxtyping" in str(names.get(w)) for w in words)


def _at_first(make, plain):
    """The first calls in each test are checked: loops have the same shapes hundreds of times.

    What checks is made as it is first called: a process calls half of the functions.
    """
    test = calls = 0
    checked = None

    @functools.wraps(plain)
    def called(*args, **given):
        nonlocal test, calls, checked
        test, calls = _test, calls + 1 if test == _test else 1
        checked = checked or make()
        return (checked if calls <= MOST else plain)(*args, **given)

    return called


def _with_shapes(made):
    """One letter is one size in all arguments and the result."""

    @functools.wraps(made)
    def in_context(*args, **given):
        with _of_jaxtyping("context"):
            return made(*args, **given)

    return in_context


def _checked(made):
    """By what each annotation says; as by jaxtyping, one that has no meaning here is skipped."""
    given, hints = made.__annotations__, {}
    for name, hint in given.items():
        with contextlib.suppress(Exception):
            one = type("one", (), {"__annotations__": {name: hint}})
            hints |= typing.get_type_hints(one, made.__globals__, include_extras=True)
    if not hints:
        return made
    made.__annotations__ = hints
    result = checked(made)
    made.__annotations__ = result.__annotations__ = given
    return result
