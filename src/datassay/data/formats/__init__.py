"""A file format a module: how it is known, read and given back, declared in its FORMAT."""

import ast
import pkgutil
from collections.abc import Iterator
from typing import Any

from datassay.plugins import plugins


def in_words() -> str:
    """Return the known suffixes and folder formats in words, for `--help`."""
    files = []
    folders = []
    for declared in [*_read_declarations(), *map(vars, plugins("formats").values())]:
        files += declared.get("suffixes", ())
        if declared.get("holds"):
            folders += [declared["holds"]]
    return f"{', '.join(files)}, or a folder of {', '.join(folders)}"


def _read_declarations() -> Iterator[dict[str, Any]]:
    """Yield the keywords of each built-in format, parsed from its file without importing it."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        spec: Any = module.module_finder.find_spec(module.name, None)
        source = spec.loader.get_source(module.name)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("Format"):
                words = [k for k in node.keywords if k.arg in {"suffixes", "holds"}]
                yield {str(k.arg): ast.literal_eval(k.value) for k in words}
