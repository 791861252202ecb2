"""Terraform failed, or may not run now; and plans that policy refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from terradask_modules.errors import TerradaskError


@dataclass(frozen=True)
class Diagnostic:
    """An error or a warning of Terraform's.

    Parameters
    ----------
    severity
        ``error`` or ``warning``.
    summary
        What went wrong, as Terraform puts it.
    detail
        The long form; often empty.
    address
        The resource or provider it is about.
    filename, line
        Where in the configuration it comes from.
    """

    severity: str
    summary: str
    detail: str = ""
    address: str | None = None
    filename: str | None = None
    line: int | None = None

    @property
    def text(self) -> str:
        """Summary and detail in one."""
        return f"{self.summary}\n{self.detail}".strip()


class TerraformError(TerradaskError):
    """Terraform failed.

    Parameters
    ----------
    problem
        What went wrong, in one sentence.
    verb
        The Terraform command, such as ``plan``.
    folder
        The stack's folder.
    exit_code_of_terraform
        The exit code of Terraform's process; negative: ended by that signal.
    diagnostics
        Terraform's errors and warnings, structured.
    """

    exit_code = 4

    def __init__(
        self,
        problem: str,
        *,
        verb: str = "",
        folder: str = "",
        exit_code_of_terraform: int | None = None,
        diagnostics: Sequence[Diagnostic] = (),
        given: Any = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(problem, given=given, allowed=allowed, advice=advice)
        self.verb = verb
        self.folder = folder
        self.exit_code_of_terraform = exit_code_of_terraform
        self.diagnostics = tuple(diagnostics)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output."""
        return {**super().as_dict(), "diagnostics": [asdict(d) for d in self.diagnostics]}


class ProviderUnavailable(TerraformError):
    """Terraform can't get the AWS provider: the registry doesn't answer, or has another one than
    the lock file.
    """

    exit_code = 3


class BackendMissing(TerraformError):
    """The bucket that holds the state doesn't exist."""

    exit_code = 6


class StateLocked(TerraformError):
    """Another command holds the state's lock.

    Attributes
    ----------
    holder
        Who holds it, as ``user@host``.
    since
        Since when, as Terraform writes it.
    lock_id
        The id that ``terraform force-unlock`` takes.
    operation
        The holder's operation, as Terraform writes it.
    """

    exit_code = 5

    holder: str | None = None
    since: str | None = None
    lock_id: str | None = None
    operation: str | None = None


class StateConflict(TerraformError):
    """The state or the locked answers don't match the settings, the credentials or the last apply:
    they are of another network or account, or older. Find out which is right.
    """

    exit_code = 5


class StalePlan(TerraformError):
    """The state has changed since the plan was made."""

    exit_code = 5


class TerraformCancelled(TerraformError):
    """The command was cancelled, and Terraform stopped in order."""

    exit_code = 130


class FolderBusy(TerradaskError):
    """Another process runs Terraform in this folder.

    Parameters
    ----------
    folder
        The stack's folder.
    pid, command
        The other process and its command, if they are known.
    waited_seconds
        How long this process has waited.
    """

    exit_code = 5

    def __init__(
        self, folder: str, *, pid: int | None, command: str | None, waited_seconds: float
    ) -> None:
        who = f"process {pid}" if pid else "another process"
        doing = f" ({command})" if command else ""
        super().__init__(
            f"{who}{doing} works in {folder}; waited {waited_seconds:.0f} s",
            advice=(
                "wait for it to end, or end it with one Ctrl-C so that Terraform can stop in order"
            ),
        )
        self.folder = folder
        self.pid = pid
        self.waited_seconds = waited_seconds


class PlanChanged(TerradaskError):
    """A saved plan, or its starting point, has changed since the review.

    Parameters
    ----------
    problem
        What is different.
    what
        Where: ``file``, ``sidecar`` (the file beside it), ``report``, ``workspace``, ``account``,
        ``region``, ``terradask version``, ``program`` (Terraform or OpenTofu), ``Terraform
        version``, ``OpenTofu version``, ``provider version``, ``expiry``, ``configuration``,
        ``state lineage`` or ``state serial``.
    """

    exit_code = 5

    def __init__(self, problem: str, *, what: str, given: Any = None) -> None:
        super().__init__(
            problem, given=given, advice="plan again, review the new plan, and apply it"
        )
        self.what = what


# ---- plans that policy refuses -------------------------------------------------------------------


class PolicyFinding(Protocol):
    """A finding of one rule, as errors show it."""

    @property
    def check(self) -> str:
        """The rule."""

    @property
    def address(self) -> str:
        """The resource; empty if the finding is about the whole plan."""

    @property
    def message(self) -> str:
        """What is wrong."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""


class PolicyViolation(TerradaskError):
    """A plan has findings that stop its apply.

    Parameters
    ----------
    findings
        The blocking ones.
    stack
        The stack: ``network``, or a cluster's name.
    """

    exit_code = 8

    def __init__(self, findings: Sequence[PolicyFinding], *, stack: str = "") -> None:
        number = (
            f"{len(findings)} policy findings stop"
            if len(findings) != 1
            else "a policy finding stops"
        )
        super().__init__(
            f"{number} the apply{f' of {stack}' if stack else ''}",
            advice=(
                "fix what they name, or waive them for a while: [[policy.waivers]] in "
                "terradask.toml, see docs/policy.md"
            ),
        )
        self.findings = tuple(findings)
        self.stack = stack

    def _text(self) -> str:
        """Return the problem, what each finding says, and what to do."""
        lines = [
            f"  {finding.check} {finding.address or 'the plan'}: {finding.message}"
            for finding in self.findings
        ]
        return "\n".join([self.problem, *lines, f"  to do: {self.advice}"])

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output."""
        return {**super().as_dict(), "findings": [finding.as_dict() for finding in self.findings]}
