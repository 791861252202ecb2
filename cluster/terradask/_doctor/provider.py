"""Whether Terraform can have the AWS provider: it is asked to install it, in an empty folder."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from terradask._doctor.finding import Finding
from terradask._stacks.configuration import own_provider_lock
from terradask._terraform import provider_mirror
from terradask._terraform.events import Event
from terradask._terraform.folder_contents import CONFIGURATION, LOCK_FILE
from terradask._terraform.terraform import Terraform
from terradask.errors import TerraformCancelled
from terradask_stacks.synthesis import LOCK_HCL

#: Said once Terraform knows where to get it from: of a registry, before the download.
_INSTALLS = "Installing provider version: "

#: How long an answer may take; and an installation, which a copy on this machine doesn't need.
_ANSWER_SECONDS = 45.0
_INSTALL_SECONDS = 5.0


def check_provider(
    environ: Mapping[str, str],
    *,
    answer_seconds: float = _ANSWER_SECONDS,
    install_seconds: float = _INSTALL_SECONDS,
) -> Finding:
    """Have Terraform install the provider, and stop it where it would download it.

    Raises `ProviderUnavailable`, `TerraformError`.
    """
    version = provider_mirror.PROVIDER_VERSION
    source = provider_mirror.cli_config_in_use(environ)
    found = f"hashicorp/aws {version} from {source}"
    with tempfile.TemporaryDirectory(prefix="terradask-") as made:
        folder = Path(made) / "provider"
        folder.mkdir()
        needed = {"aws": {"source": "hashicorp/aws", "version": version}}
        document = {"terraform": {"required_providers": needed}}
        (folder / CONFIGURATION).write_text(json.dumps(document), encoding="utf-8")
        (folder / LOCK_FILE).write_bytes((own_provider_lock() or LOCK_HCL).read_bytes())
        installs = threading.Event()
        timers: list[threading.Timer] = []

        def take(event: Event) -> None:
            if event.message.startswith(_INSTALLS) and not installs.is_set():
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
                    f"{found}: no answer within {answer_seconds:.0f} s",
                    "allow this machine to reach registry.terraform.io, through HTTPS_PROXY if it "
                    "needs that; or `terradask doctor --fix` looks for a copy on this machine",
                )
        finally:
            for timer in timers:
                timer.cancel()
    return Finding("provider", True, found)
