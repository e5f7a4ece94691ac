"""The page: one table."""

from datassay.report.advice import Advice
from datassay.report.page import Page, Row, Section, Table
from helpers.tally.files import FILES


def page(findings):
    """Everything that the command says."""
    rows = tuple(Row(n, (f"{s:,}",)) for n, s in zip(findings.names, findings.sizes, strict=True))
    table = Table("Samples of each class", ("class", "samples"), rows, in_terminal=True)
    few = [n for n, s in zip(findings.names, findings.sizes, strict=True)
           if s < findings.settings.fewest]  # fmt: skip
    return Page(
        brand="datassay tally · how many samples each class has",
        title="tally",
        lead=f"{sum(findings.sizes):,} samples",
        facts={"Command": findings.settings.command},
        advice=(Advice("classes", "look" if few else "fine", f"{len(few)} small classes", "Few."),),
        sections=(Section("classes", "Classes", "Classes", (table,)),),
        files=FILES,
        answer=(f"{len(few)} classes are small.",),
    )
