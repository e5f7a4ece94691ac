"""A file format a module: how it is known, read and given back, declared in its FORMAT."""

import ast
import pkgutil
from collections.abc import Iterator
from typing import Any

from datassay.plugins import plugins


def in_words() -> str:
    """Return what can be read, for `--help`: suffixes of files, and what folders hold."""
    files = []
    folders = []
    for declared in [*_read_declarations(), *map(vars, plugins("formats").values())]:
        files += declared.get("suffixes", ())
        if declared.get("holds"):
            folders += [declared["holds"]]
    return f"{', '.join(files)}, or a folder of {', '.join(folders)}"


def _read_declarations() -> Iterator[dict[str, Any]]:
    """Yield what our own formats declare, by their syntax: to import them would take seconds."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        spec: Any = module.module_finder.find_spec(module.name, None)
        source = spec.loader.get_source(module.name)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("Format"):
                words = [k for k in node.keywords if k.arg in {"suffixes", "holds"}]
                yield {str(k.arg): ast.literal_eval(k.value) for k in words}
