"""What a release adds to the package's metadata: the version of its tag, and absolute links.

The release workflow names the tag in RELEASE_TAG and the repository's address in RELEASE_URL. Other
builds have the version that stands here, no address, and the README's links as they are.
"""

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

TAG = os.environ.get("RELEASE_TAG", "")
URL = os.environ.get("RELEASE_URL", "").rstrip("/")
VERSION = TAG.removeprefix("v") or "0.1.0"
# A link or a picture of Markdown whose target is a path in the repository.
LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?!https?:|#)([^)\s]+\))")


class ReleaseHook(MetadataHookInterface):
    """Sets the README and the links of a distribution."""

    def update(self, metadata: dict) -> None:
        """Add the README, and where an address is known the links to it."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        if URL:
            text = with_absolute_links(text)
            metadata["urls"] = {
                "Repository": URL,
                "Documentation": f"{URL}/blob/{TAG}/docs/index.md",
                "Changelog": f"{URL}/blob/{TAG}/CHANGELOG.md",
                "Issues": f"{URL}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_absolute_links(text: str, url: str = URL, tag: str = TAG) -> str:
    """Return Markdown whose links lead to files of the repository as the tag has them."""
    return LINK.sub(lambda m: f"{m[1]}{m[2]}{url}/{'raw' if m[1] else 'blob'}/{tag}/{m[3]}", text)
