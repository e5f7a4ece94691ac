"""Step 4: results become pages, tables and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datassay.face import face

if TYPE_CHECKING:
    from datassay.report.drawing import draw as draw
    from datassay.report.drawing import heat_image as heat_image
    from datassay.report.drawing import heat_limit as heat_limit

face(__name__)
