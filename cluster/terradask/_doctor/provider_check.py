"""Check that Terraform can install the AWS provider."""

from __future__ import annotations

import json
import re
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._doctor.finding import Finding
from terradask._terraform import provider_mirror
from terradask._terraform.binary import find_terraform
from terradask._terraform.events import Event
from terradask._terraform.folder_contents import CONFIGURATION, LOCK_FILE
from terradask._terraform.program import PROGRAMS
from terradask._terraform.provider_lock import provider_lock
from terradask._terraform.terraform import Terraform
from terradask.errors import TerraformCancelled
from terradask_modules.frameworks import PROVIDER_SOURCE, PROVIDER_VERSION

if TYPE_CHECKING:
    from terradask._terraform.program import Program

#: The message once the source is known; from a registry, before the download.
_INSTALLS = re.compile(r"(- )?Installing (provider version: )?hashicorp/aws v")

#: Time limits of an answer, and of an installation without a copy on this machine.
_ANSWER_SECONDS = 45.0
_INSTALL_SECONDS = 5.0


def copy_for_another(program: Program) -> str | None:
    """Describe a copy of the provider that only the other program can use."""
    for other in PROGRAMS:
        mirror = None if other is program else provider_mirror.find_mirror(program=other)
        if mirror is not None:
            return f"the copy in {mirror} is {other.name}'s, with other checksums"
    return None


def check_provider(
    environ: Mapping[str, str],
    *,
    answer_seconds: float = _ANSWER_SECONDS,
    install_seconds: float = _INSTALL_SECONDS,
) -> Finding:
    """Let Terraform install the provider, and stop it before a download.

    Raises `ProviderUnavailable`, `TerraformError`.
    """
    program = find_terraform(environ).program
    source = provider_mirror.cli_config_in_use(environ, program)
    found = f"{PROVIDER_SOURCE} {PROVIDER_VERSION} from {source}"
    with tempfile.TemporaryDirectory(prefix="terradask-") as made:
        folder = Path(made) / "provider"
        folder.mkdir()
        needed = {"aws": {"source": PROVIDER_SOURCE, "version": PROVIDER_VERSION}}
        document = {"terraform": {"required_providers": needed}}
        (folder / CONFIGURATION).write_text(json.dumps(document), encoding="utf-8")
        (folder / LOCK_FILE).write_bytes(provider_lock(program).read_bytes())
        installs = threading.Event()
        timers: list[threading.Timer] = []

        def take(event: Event) -> None:
            if _INSTALLS.match(event.message) and not installs.is_set():
                installs.set()
                cancel_after(0 if source.kind == "registry" else install_seconds)

        terraform = Terraform(folder, environ=environ, on_event=take)

        def cancel_after(seconds: float) -> None:
            timer = threading.Timer(seconds, terraform.cancel)
            timer.daemon = True
            timer.start()
            timers.append(timer)

        cancel_after(answer_seconds)
        try:
            terraform.init()
        except TerraformCancelled:
            if not installs.is_set():
                return Finding(
                    "provider",
                    False,
                    f"{found}: no reply within {answer_seconds:.0f} s",
                    f"allow this machine to reach {program.registry}, through HTTPS_PROXY if "
                    "necessary; or `terradask doctor --fix` looks for a copy on this machine",
                )
        finally:
            for timer in timers:
                timer.cancel()
    return Finding("provider", True, found)
