"""From a Page to one HTML file that opens from disk and asks no network."""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from datassay.optional import text_if
from datassay.report.advice import Advice
from datassay.report.columns import columns_section
from datassay.report.page import Gallery, Page, Partial, Table

SUSPECTS = "suspects"  # the anchor of a table of suspects, where a page has one
TEMPLATES = Path(__file__).parent / "templates"
# plotly.js 4.1.1 as npm's plotly.js-cartesian-dist-min has it, MIT licence, by gzip -9 -n.
PLOTLY = TEMPLATES / "plotly-cartesian.min.js.gz"
# Styles that plotly sets as text, not by rules: of maps, which we do not draw, and of markup.
PLOTLY_ELEMENTS = re.compile(r"\.textContent='(\.[^'\\]*)'")
PLOTLY_ATTRIBUTES = ("font-size:70%", "font-weight:bold")


def render(page: Page) -> str:
    """Render a page as one HTML file with everything that it needs inside it.

    Every text is escaped, in HTML, in attributes and inside the figures. A content security policy
    in the page refuses any network access.

    Args:
        page: what it says.

    Returns:
        HTML; 0.7 MB of it is plotly's JavaScript, compressed, where it has figures.
    """
    line = text_if(page.verdict, "Kind, missing values and treatment of each.")
    columns = (replace(section, line=line) for section in columns_section(page.columns))
    page = replace(page, sections=(*page.sections, *columns))
    css = _read_template("page.css")
    packed = b""
    plotly = ""
    if page.figures:
        packed = PLOTLY.read_bytes()
        plotly = gzip.decompress(packed).decode()
    gallery = next((b for b in page.blocks if isinstance(b, Gallery) and b.sorts), None)
    js = "".join(_read_template(name) for name in _list_scripts(page, gallery))
    html = _environment().get_template("page.html").render(
        page=page,
        tags=[tag(advice) for advice in page.advice],
        figures={f.name: (markup(script_json(f.json)), f.text)
                 for f in page.figures},
        gallery_view=gallery.advice_view if gallery else "",
        gallery_views=[view.value for view in gallery.views] if gallery else [],
        suspects=any(section.anchor == SUSPECTS for section in page.sections),
        terms=list(page.method),
        evidence=[section for section in page.sections if section.line],
        css=markup(css),
        plotly=markup(base64.b64encode(packed).decode()),
        js=markup(js),
        policy=policy(css, plotly, js),
        **_sort_facts(page),
    )  # fmt: skip
    return html.lstrip()


@cache
def _environment() -> Any:
    """Return the Jinja environment, which compiles each template once for all pages."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "coded": escape_with_code,
        "joined": join_units,
    }
    return environment


def policy(css: str, plotly: str, script: str) -> str:
    """Return a content security policy: no network; only the page's own code and style."""

    def hashes(texts: Iterable[str]) -> str:
        digests = (hashlib.sha256(text.encode()).digest() for text in texts)
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

    # Beside our own style plotly may add the style elements that its code holds, one that is empty
    # and filled by rules, and the style attributes of <sup>, <sub> and <b>.
    styles = hashes([css, "", *PLOTLY_ELEMENTS.findall(plotly), *PLOTLY_ATTRIBUTES])
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data: blob:; "
        f"style-src 'unsafe-hashes' {styles}; script-src {hashes([plotly, script])}"
    )


def script_json(value: object) -> str:
    """Return JSON for a script element: <, > and & written as unicode escapes."""
    if isinstance(value, str):
        text = value
    else:
        text = json.dumps(value)
    # In JSON these three occur only inside strings, where the escape means the same character.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed_json(value: object) -> str:
    """Return JSON compressed, in base64, as `unpack` of the page's scripts reads it."""
    return base64.b64encode(gzip.compress(json.dumps(value).encode(), mtime=0)).decode()


def markup(text: str) -> Any:
    """Return our own HTML, CSS or JavaScript marked as safe, so that it is not escaped."""
    from markupsafe import Markup

    return Markup(text)


def join_units(text: str) -> str:
    """Return a text whose lines do not break between a number and its % or after R²."""
    return re.sub(r"(?<=\d) (?=%)|(?<=R²) (?=[\d−])", "\N{NO-BREAK SPACE}", text)


def escape_with_code(text: str) -> Any:
    """Return a text of our own as HTML: backticks set code, the rest is escaped."""
    from markupsafe import Markup, escape

    parts = [escape(join_units(piece)) for piece in text.split("`")]
    code = (Markup("<code>{}</code>").format(p) if k % 2 else p for k, p in enumerate(parts))
    return Markup("").join(code)


def tag(advice: Advice) -> str:
    """Return the line above a piece of advice: how urgent it is, and what it is about."""
    return f"{advice.severity.capitalize()} · {advice.kind}"


def _list_scripts(page: Page, gallery: Gallery | None) -> list[str]:
    """Return the file names of the scripts that the page needs, in order."""
    partial_scripts = [name for b in page.blocks if isinstance(b, Partial) for name in b.script]
    has_sortable = any(isinstance(b, Table) and b.sortable for b in page.blocks)
    # Figures last: to draw the first one takes longer than all the rest.
    gallery_script = text_if(gallery, "gallery.js")
    names = ("unpack.js", *partial_scripts, gallery_script, text_if(has_sortable, "table.js"))
    return list(dict.fromkeys([*filter(None, names), "figures.js"]))


def _sort_facts(page: Page) -> dict[str, object]:
    """Return the facts by place: "facts" and "internals" below, version, seed, command."""
    facts = {name.lower(): value for name, value in page.facts.items()}
    facts_on_page = [f for f in page.facts.items() if f[0].lower() not in {"command", "version"}]
    footer_defaults = {"version": version("datassay"), "seed": "", "command": ""}
    return {
        "facts": [f for f in facts_on_page if f[0] not in page.internals],
        "internals": [f for f in facts_on_page if f[0] in page.internals],
        **{name: facts.get(name, default) for name, default in footer_defaults.items()},
    }


def _read_template(name: str) -> str:
    """Return a template's text; line ends are line feeds, as in what a browser hashes."""
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")
