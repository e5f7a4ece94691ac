"""Other packages, as far as an entry point needs one."""

from datassay.plugins import plugins


def distribution(folder, name, entry_points):
    """Leave in a folder of the path what the installation of a distribution leaves there."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    plugins.cache_clear()
