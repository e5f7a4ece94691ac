"""Step 4: results become pages, tables and files."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.report.drawing import draw as draw
    from datassay.report.html import render as render
    from datassay.report.page import Figure as Figure
    from datassay.report.page import Page as Page
    from datassay.report.page import Partial as Partial
    from datassay.report.page import Row as Row
    from datassay.report.page import Section as Section
    from datassay.report.page import Table as Table
    from datassay.report.page import Text as Text
    from datassay.report.style import BLUE as BLUE
    from datassay.report.style import GREY as GREY
    from datassay.report.style import INK as INK
    from datassay.report.style import SKY as SKY
    from datassay.report.style import VERMILION as VERMILION
    from datassay.report.style import log_ticks as log_ticks
    from datassay.report.style import style as style
    from datassay.report.tables import column as column
    from datassay.report.tables import labels as labels
    from datassay.report.tables import standard_json as standard_json
    from datassay.report.wording import count as count
    from datassay.report.wording import number as number
    from datassay.store.folders import heal as heal
    from datassay.store.folders import sha256 as sha256
    from datassay.store.outputs import check_writable as check_writable
    from datassay.store.outputs import write_pages as write_pages

make_public(__name__)
