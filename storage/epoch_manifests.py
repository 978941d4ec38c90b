"""The manifests of epochs in an object store: an epoch is there when its manifest is.

A store cannot rename a folder. So the files of an epoch are put under names of their own, where nobody looks for them
yet. The manifest, an object that is put only if it does not exist, then lists them, and no second writer replaces it.
"""

from dataclasses import dataclass

import msgspec

MANIFESTS = "_epochs/"
"""The folder of the manifests, in that of the files."""

SUFFIX = ".json"

BEGUN = f"{MANIFESTS}begun"
"""An empty object that is there before the first file, so that readers look for manifests."""

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class EpochManifest:
    """What an epoch consists of.

    Attributes:
        run: the job that wrote it, across restarts; empty for one without snapshots.
        files: the names of its files, below the folder that has the manifests' folder.
        version: of this format.
    """

    run: str
    files: tuple[str, ...]
    version: int = FORMAT_VERSION


def manifest_bytes(manifest: EpochManifest) -> bytes:
    """Return a manifest as JSON."""
    return msgspec.json.encode(manifest)


def read_manifest(path: str, data: bytes) -> EpochManifest:
    """Return the manifest that was written at a path.

    Raises:
        OSError: it is none, or one of a later version.
    """
    try:
        manifest = msgspec.json.decode(data, type=EpochManifest)
    except msgspec.DecodeError as error:
        raise OSError(f"{path} is no manifest of an epoch ({error}): remove it if it is not of write_files") from None
    if manifest.version != FORMAT_VERSION:
        raise OSError(
            f"{path} has version {manifest.version} of manifests, and this release reads {FORMAT_VERSION}: use a later "
            "release"
        )
    return manifest
