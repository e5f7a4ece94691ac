"""From a template and plain texts to one HTML file that opens from disk and asks no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from datassay.report.advice import Advice

TEMPLATES = Path(__file__).parent / "templates"


def render(
    template: str,
    scripts: Sequence[str],
    context: Mapping[str, object],
    figures: Mapping[str, tuple[str, str]],
) -> str:
    """A page with everything that it needs inside it.

    Every text in the context is escaped, in HTML, in attributes and inside the figures. A content
    security policy in the page refuses any network access.

    Args:
        template: file name among our templates; extends base.html.
        scripts: file names among our templates, run in this order.
        context: what the template shows, `facts` among it: name → value of what was run.
        figures: name → (plotly JSON, what it shows for who cannot see it).

    Returns:
        HTML; about 5 MB of it is plotly's JavaScript.
    """
    import jinja2
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    trusted = {
        "css": _own("page.css"),
        "js": "".join(_own(name) for name in scripts),
        "plotly": get_plotlyjs(),
    }
    page = environment.get_template(template).render(
        **_with_footer(context),
        **{name: markup(text) for name, text in trusted.items()},
        figures={
            name: {"json": markup(script_json(spec)), "text": text}
            for name, (spec, text) in figures.items()
        },
    )
    return page.lstrip()


def script_json(text: str) -> str:
    """JSON that can stand inside a script element: no character can end the element.

    Args:
        text: JSON.

    Returns:
        The same JSON value with <, > and & as unicode escapes.
    """
    # In JSON these three occur only inside strings, where the escape means the same character.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def markup(text: str) -> Any:
    """Text that needs no escaping: our own files, and JSON that script_json has escaped.

    Args:
        text: HTML, CSS or JavaScript.

    Returns:
        The same, marked as such.
    """
    from markupsafe import Markup

    return Markup(text)


def advice_cards(told: Sequence[Advice]) -> list[dict[str, object]]:
    """Advice as base.html shows it.

    Args:
        told: most urgent kind first.

    Returns:
        The fields of each, and its tag.
    """
    return [{**asdict(a), "tag": _tag(a)} for a in told]


def card_kind(shown: Sequence[Any]) -> str:
    """The style of a gallery, by what its first card draws.

    Args:
        shown: cards, each with its `drawing`.

    Returns:
        "image", "row" or "text".
    """
    if not shown:
        return "text"
    drawing = shown[0].drawing
    return "image" if drawing.image else "row" if drawing.values else "text"


def _own(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _with_footer(context: Mapping[str, object]) -> dict[str, object]:
    facts: Any = context["facts"]
    told = {name.lower(): value for name, value in facts.items()}
    return {
        **context,
        "facts": [f for f in facts.items() if f[0].lower() not in {"command", "version"}],
        "version": told.get("version", version("datassay")),
        "seed": told.get("seed", ""),
        "command": told.get("command", ""),
    }


def _tag(told: Advice) -> str:
    if told.kind == "contest":
        return "Who won" if told.severity == "fine" else "Who won · a rival did better"
    word = {"act": "Act", "look": "Look", "fine": "Fine"}[told.severity]
    return f"{word} · {told.kind}"
