"""Translate Terraform's diagnostics into typed errors.

Diagnostics are structured, but only their texts contain the cause: the patterns are minimal parts,
stable since Terraform 1.11; tests compare them with real output. OpenTofu 1.11 and 1.12 have the
same texts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from terradask._aws.denied import refused_action, refused_resource, refuser
from terradask._aws.translation import (
    CLOCK_ADVICE,
    CREDENTIALS_ADVICE,
    DENIED,
    EXPIRED,
    SKEWED,
)
from terradask._terraform.program import TERRAFORM, Program
from terradask._terraform.state.lock import locked_error
from terradask.errors import (
    AccessDenied,
    AwsError,
    BackendMissing,
    Diagnostic,
    InvalidCredentials,
    NoCredentials,
    ProviderUnavailable,
    StalePlan,
    TerraformError,
)

#: Diagnostics that `init` fixes: the folder isn't initialised for the configuration.
_NEEDS_INIT = (
    "Required plugins are not installed",
    "Inconsistent dependency lock file",
    "Backend initialization required",
    "Module not installed",
)

_OPERATION = re.compile(r"operation error ([A-Za-z0-9 ]+): ([A-Za-z0-9]+)")
_ERROR_CODE = re.compile(
    r"\b(ExpiredToken(?:Exception)?|RequestExpired|InvalidClientTokenId|UnrecognizedClientException|AuthFailure|"
    r"SignatureDoesNotMatch|AccessDenied(?:Exception)?|UnauthorizedOperation)\b"
)


def needs_init(error: TerraformError) -> bool:
    """Return whether initialising the folder again helps."""
    return any(d.summary.startswith(_NEEDS_INIT) for d in error.diagnostics)


def error_of(
    *,
    verb: str,
    folder: str,
    exit_code: int,
    diagnostics: Sequence[Diagnostic],
    stderr: str,
    program: Program = TERRAFORM,
) -> TerraformError | AwsError:
    """Return the error for a failed command."""
    errors = [d for d in diagnostics if d.severity == "error"]
    if not errors and stderr.strip():
        errors = [_from_text(stderr)]
    common: dict[str, Any] = {
        "verb": verb,
        "folder": folder,
        "exit_code_of_terraform": exit_code,
        "diagnostics": errors,
    }
    for found in errors:
        typed = _typed(found, common, program)
        if typed is not None:
            return typed
    return _plain(errors, common, program)


def _typed(
    found: Diagnostic, common: dict[str, Any], program: Program
) -> TerraformError | AwsError | None:
    text = found.text
    if "acquiring the state lock" in found.summary:
        return locked_error(found.detail, common)
    if found.summary.startswith(("Saved plan is stale", "Saved plan does not match")):
        return StalePlan(
            "the state has changed since this plan was made",
            **common,
            advice="plan again, review the new plan, and apply it",
        )
    # OpenTofu doesn't name the bucket.
    bucket = re.search(r'S3 bucket (?:"([^"]+)" )?does not exist', text)
    if bucket:
        return BackendMissing(
            "the bucket for the state doesn't exist",
            **common,
            given=bucket[1],
            advice="deploy the network, which creates the bucket: terradask apply network",
        )
    if re.search(r"reading S3 Object .*couldn't find resource", text, re.DOTALL):
        # AWS (s3-young-bucket)
        return TerraformError(
            "S3 doesn't find an object that was just stored",
            **common,
            given=f"{found.address}: {found.detail or found.summary}",
            advice="run the same command again: S3 may miss objects for 15 minutes after the "
            "bucket's creation",
        )
    if "NotAvailableInZone" in text and "Nat Gateway" in text:
        return _no_gateway(found, common)
    return _about_provider(found, common, program) or _about_credentials(found, common, program)


def _no_gateway(found: Diagnostic, common: dict[str, Any]) -> TerraformError:
    _, _, zone = (found.address or "").partition(".nat-")
    return TerraformError(
        f"AWS has no NAT gateways in zone {zone}",
        **common,
        given=f"{found.address}: {found.detail or found.summary}",
        allowed="zones of the region that have them",
        advice="name other zones in network.zones, then plan and apply the network again",
    )


def _about_provider(
    found: Diagnostic, common: dict[str, Any], program: Program
) -> TerraformError | None:
    text = found.text
    if "match any of the checksums" in text:
        return ProviderUnavailable(
            "the AWS provider that was found differs from the lock file",
            **common,
            given=_first_line(text, containing="checksums"),
            advice=(
                "remove that copy of the provider, or find another one with `terradask doctor "
                f"--fix`; put a lock file of your own for terradask, with {program.provider}, into "
                "your data folder (Linux: ~/.local/share/terradask/.terraform.lock.hcl)"
            ),
        )
    if re.search(
        r"could not (connect to|query provider) registry|failed to request discovery document", text
    ):
        return ProviderUnavailable(
            f"the {program.name} registry doesn't answer, and this machine has no provider in use",
            **common,
            given=_first_line(text, containing="registry"),
            advice="`terradask doctor --fix` looks for a copy of the provider on this machine; or "
            f"allow this machine to reach {program.registry}",
        )
    if (
        "Failed to query available provider packages" in text
        or "Failed to install provider" in text
    ):
        return ProviderUnavailable(
            f"{program.name} can't get the AWS provider",
            **common,
            # A list of the places without it follows the first line.
            given=" ".join(found.detail.split()) or found.summary,
            advice="`terradask doctor --fix` shows its source, and repairs it if possible",
        )
    return None


def _about_credentials(
    found: Diagnostic, common: dict[str, Any], program: Program
) -> AwsError | None:
    text = found.text
    cause = TerraformError(f"{program.command} {common['verb']} failed", **common)
    error: AwsError | None = None
    code = _ERROR_CODE.search(text)
    skewed = SKEWED.search(text)
    if skewed is not None:
        error = AwsError(
            "AWS rejects this machine's requests: its clock is wrong",
            given=_first_line(text, containing=skewed[0]),
            allowed="at most 15 minutes from AWS's clock",
            advice=CLOCK_ADVICE,
        )
    elif "No valid credential sources" in text or "no EC2 IMDS role found" in text:
        error = NoCredentials(f"{program.name} finds no AWS credentials", advice=CREDENTIALS_ADVICE)
    elif code is None:
        return None
    elif code[1] in EXPIRED:
        error = NoCredentials(
            "the AWS credentials have expired", given=code[1], advice=CREDENTIALS_ADVICE
        )
    elif code[1] in DENIED:
        line = _first_line(text, containing=code[1])
        error = AccessDenied(
            _denied_action(text), line, resource=refused_resource(line), by=refuser(line)
        )
    else:
        error = InvalidCredentials(
            "AWS doesn't accept the credentials", given=code[1], advice=CREDENTIALS_ADVICE
        )
    error.__cause__ = cause
    return error


def _denied_action(text: str) -> str:
    if (named := refused_action(text)) is not None:
        return named
    operation = _OPERATION.search(text)
    return f"{operation[1].lower().replace(' ', '')}:{operation[2]}" if operation else "an action"


def _plain(
    errors: Sequence[Diagnostic], common: dict[str, Any], program: Program
) -> TerraformError:
    command, code = f"{program.command} {common['verb']}", common["exit_code_of_terraform"]
    if not errors:
        how = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
        return TerraformError(f"{command} {how} without a message", **common)
    lines = []
    for found in errors[:3]:
        where = f" ({found.address})" if found.address else ""
        lines.append(f"{found.summary}{where}{': ' + found.detail if found.detail else ''}")
    more = f"\n… and {len(errors) - 3} more" if len(errors) > 3 else ""
    return TerraformError(f"{command} failed: " + "\n".join(lines) + more, **common)


def _from_text(text: str) -> Diagnostic:
    """Read an error from text, which Terraform frames with ``│``."""
    lines = [line.strip("│╷╵ \t") for line in text.splitlines()]
    kept = [line for line in lines if line]
    start = next((i for i, line in enumerate(kept) if line.startswith("Error:")), 0)
    summary = kept[start].removeprefix("Error:").strip() if kept else "no message"
    return Diagnostic("error", summary, os.linesep.join(kept[start + 1 :]))


def _first_line(text: str, *, containing: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if containing in line), lines[0] if lines else "")
