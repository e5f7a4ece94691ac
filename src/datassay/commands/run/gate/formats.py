"""The outcomes of conditions as build systems read them: JUnit XML, GitHub annotations."""

from collections.abc import Iterable
from xml.etree import ElementTree

from datassay.commands.run.gate.conditions import FAILED, INCONCLUSIVE, PASSED, Outcome
from datassay.errors import printable

LEVELS = {FAILED: "error", INCONCLUSIVE: "warning", PASSED: "notice"}


def junit_xml(outcomes: Iterable[Outcome], data: str) -> str:
    """Return a JUnit report with a test case for each condition.

    Args:
        outcomes: of the conditions.
        data: name of what was checked, the class of the cases.

    Returns:
        XML: <failure> where a condition failed, <error> where it is inconclusive.
    """
    cases = list(outcomes)
    counts = {
        "tests": len(cases),
        "failures": sum(case.status == FAILED for case in cases),
        "errors": sum(case.status == INCONCLUSIVE for case in cases),
    }
    attributes = {"name": "datassay check", **{name: str(n) for name, n in counts.items()}}
    suite = ElementTree.Element("testsuite", attributes)
    for outcome in cases:
        names = {"classname": printable(data), "name": printable(outcome.condition)}
        case = ElementTree.SubElement(suite, "testcase", names)
        tag = {FAILED: "failure", INCONCLUSIVE: "error"}.get(outcome.status)
        sentence = printable(outcome.sentence)
        if tag is not None:
            ElementTree.SubElement(case, tag, {"message": sentence})
        else:
            ElementTree.SubElement(case, "system-out").text = sentence
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def github_lines(outcomes: Iterable[Outcome], data: str) -> list[str]:
    """Return workflow commands of GitHub: an error, a warning or a notice for each condition."""
    lines = []
    for outcome in outcomes:
        title = _escape(f"datassay: {outcome.condition}", in_property=True)
        file = _escape(data, in_property=True)
        sentence = _escape(f"{outcome.status}: {outcome.sentence}")
        lines.append(f"::{LEVELS[outcome.status]} title={title},file={file}::{sentence}")
    return lines


def _escape(text: str, *, in_property: bool = False) -> str:
    """Escape what GitHub would read as the end of a line, or of a property."""
    codes = {"%": "%25", "\r": "%0D", "\n": "%0A"}
    if in_property:
        codes |= {":": "%3A", ",": "%2C"}
    return "".join(codes.get(character, character) for character in text)
