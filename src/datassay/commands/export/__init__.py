"""`datassay export`; an export of another package is an `Export`, made of a `Material`."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.commands.export.material import Export as Export
    from datassay.commands.export.material import Exported as Exported
    from datassay.commands.export.material import Material as Material
    from datassay.commands.export.material import Parts as Parts
    from datassay.commands.export.material import image_files as image_files
    from datassay.commands.export.material import image_paths as image_paths
    from datassay.commands.export.material import own_columns as own_columns
    from datassay.commands.export.material import single_labels as single_labels

make_public(__name__)
