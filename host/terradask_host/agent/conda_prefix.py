"""An environment of conda's packages: made of the archives that the run's lock names.

py-rattler, the library of pixi, installs them. Its wheel comes from the cluster's own objects, and
is unpacked into a folder that nothing else uses.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from terradask_host import conda_install
from terradask_host.agent.environment_links import write_links
from terradask_host.conda_lines import CondaArchive

#: Runs a command line with variables, and tries it again if it fails.
Run = Callable[[Sequence[str], Mapping[str, str]], None]


@dataclass(frozen=True)
class CondaPrefix:
    """An environment of conda's packages that is to be made.

    Parameters
    ----------
    folder
        Where: conda's packages are told this path when they are installed.
    archives
        What is in it.
    log
        Gets what is done, a line at a time.
    credentials
        Of channels, by URL.
    """

    folder: Path
    archives: Sequence[CondaArchive]
    log: Callable[[str], None]
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    def install(self, wheel: bytes, run: Run) -> None:
        """Install the archives by the installer's wheel. Raises as `run` does."""
        # Beside the environment: it then takes its files as links, not as copies.
        work = self.folder.with_name(f"{self.folder.name}.conda")
        shutil.rmtree(work, ignore_errors=True)
        installer = work / "py-rattler"
        installer.mkdir(parents=True)
        archive = work / "py-rattler.whl"
        archive.write_bytes(wheel)
        with zipfile.ZipFile(archive) as files:
            files.extractall(installer)
        request = work / "request.json"
        wanted = {"prefix": str(self.folder), "folder": str(work)}
        archives = [asdict(each) for each in self.archives]
        request.write_text(json.dumps({**wanted, "archives": archives}))
        program = [sys.executable, "-P", "-m", conda_install.__name__]
        # A simulated host's program lies in a folder that its own variable names.
        own = Path(conda_install.__file__).parents[1]
        variables = {"HOME": str(work), "TMPDIR": str(work), "PYTHONPATH": str(own)}
        try:
            run(
                [*program, str(installer), str(request)],
                {**variables, conda_install.CREDENTIALS: json.dumps(self.credentials)},
            )
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def list_links(self) -> None:
        """List its links for other hosts; what leads out of it is removed."""
        for name in write_links(self.folder):
            self.log(f"removed {os.fspath(self.folder / name)}, a link out of the environment")
