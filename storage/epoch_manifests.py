"""The manifests of epochs in an object store: an epoch exists when its manifest does.

A store cannot rename a folder. So a writer puts the files of an epoch under names where readers do not look, and then
the manifest, which lists the files. The put fails if the manifest exists, so no second writer replaces an epoch.
"""

from dataclasses import dataclass

import msgspec

MANIFESTS = "_epochs/"
"""The folder of the manifests, within the folder of the files."""

SUFFIX = ".json"

BEGUN = f"{MANIFESTS}begun"
"""An empty object that a writer puts before the first file, so that readers look for manifests."""

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class EpochManifest:
    """The content of an epoch.

    Attributes:
        run: identifies the job that wrote it, the same after restarts; empty for a job without snapshots.
        files: the names of the epoch's files, relative to the folder that contains the manifests' folder.
    """

    run: str
    files: tuple[str, ...]
    version: int = FORMAT_VERSION


def manifest_bytes(manifest: EpochManifest) -> bytes:
    return msgspec.json.encode(manifest)


def read_manifest(path: str, data: bytes) -> EpochManifest:
    """Return the manifest in ``data``, read from ``path``.

    Raises:
        OSError: the bytes are not a manifest, or have a later version.
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
