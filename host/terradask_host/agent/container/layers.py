"""An image's files, unpacked layer by layer as the image specification defines:
https://github.com/opencontainers/image-spec/blob/main/layer.md

The user who unpacks owns all files; entries that only root can create are left out.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path
from typing import BinaryIO

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
#: Linux's limit for one path.
_MOST_LINKS = 40


class LayerInvalid(ValueError):
    """A layer has an entry whose path can't be resolved."""


class RootFolder:
    """The folder of an image's files; links resolve within it. `path` exists."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def unpack(self, layer: BinaryIO) -> None:
        """Unpack an uncompressed layer over the existing files.

        Raises `LayerInvalid`, `tarfile.TarError`, `OSError`.
        """
        #: A whiteout hides entries of lower layers, never of its own.
        own: set[Path] = set()
        with tarfile.open(fileobj=layer, mode="r|") as archive:
            for entry in archive:
                folder, _, name = entry.name.strip("/").rpartition("/")
                if name.removeprefix(_WHITEOUT) in ("", ".", ".."):
                    continue
                parent = self.resolve(folder)
                parent.mkdir(parents=True, exist_ok=True)
                if name == _OPAQUE:
                    for hidden in parent.iterdir():
                        if hidden not in own:
                            remove(hidden)
                elif name.startswith(_WHITEOUT):
                    remove(parent / name.removeprefix(_WHITEOUT))
                elif self._put(archive, entry, parent / name):
                    own.update((parent / name, *(parent / name).parents))

    def resolve(self, name: str) -> Path:
        """Return the host path of an image path, with links followed within the image.

        Raises `LayerInvalid` if links form a circle.
        """
        waiting = _parts(name)
        found, links = self.path, 0
        while waiting:
            part = waiting.pop()
            if part == "..":
                found = found if found == self.path else found.parent
                continue
            step = found / part
            if not step.is_symlink():
                found = step
                continue
            links += 1
            if links > _MOST_LINKS:
                raise LayerInvalid(f"links go in circles: {name[:200]!r}")
            target = str(step.readlink())
            found = self.path if target.startswith("/") else found
            waiting += _parts(target)
        return found

    def mount_point(self, name: str, *, of_file: bool = False) -> None:
        """Create a mount point, in place of a link or a file there."""
        parent, _, last = name.strip("/").rpartition("/")
        path = self.resolve(parent) / last
        if path.is_symlink() or path.is_dir() == of_file:
            remove(path)
        if of_file:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        else:
            path.mkdir(parents=True, exist_ok=True)

    def _put(self, archive: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> bool:
        """Create an entry; return whether its kind is supported."""
        if entry.isdir():
            if path.is_symlink() or not path.is_dir():
                remove(path)
                path.mkdir()
            path.chmod((entry.mode & 0o777) | 0o700)
            return True
        if not (entry.isreg() or entry.issym() or entry.islnk()):
            return False
        remove(path)
        if entry.issym():
            path.symlink_to(entry.linkname)
        elif entry.islnk():
            folder, _, name = entry.linkname.strip("/").rpartition("/")
            # The target of a link may itself be a link within the image.
            os.link(self.resolve(folder) / name, path, follow_symlinks=False)
        else:
            content = archive.extractfile(entry)
            assert content is not None
            with path.open("wb") as file:
                shutil.copyfileobj(content, file, 2**18)
            path.chmod((entry.mode & 0o777) | 0o600)
            # Python matches a module's compiled form to its source by this time.
            os.utime(path, (entry.mtime, entry.mtime))
        return True


def _parts(path: str) -> list[str]:
    """Return the parts of a path, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with all in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
