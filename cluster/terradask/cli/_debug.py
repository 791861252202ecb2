"""``terradask debug``: pack what can be read of a cluster into one file."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terradask._aws.endpoints import ENDPOINT_VARIABLE
from terradask.cli._completion import cluster_argument
from terradask.cli._invocation import answer, flag, json_option, load_workspace
from terradask.cli._output import message
from terradask.cli._progress import ProgressLines

if TYPE_CHECKING:
    from terradask._workspace.workspace import Workspace


@click.command(short_help="Pack status, logs and states of a cluster into one file")
@cluster_argument
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A new file, or a folder for it. By default terradask-debug-NAME-TIME.zip here.",
)
@click.option(
    "--seconds",
    type=click.IntRange(min=1),
    default=120,
    show_default=True,
    help="Longest wait for AWS, and again for the plan.",
)
@flag("--no-plan", help="Leave out the plan, for which Terraform runs.")
@flag("--hide-accounts", help="Replace the numbers of AWS accounts.")
@json_option
def debug(
    name: str, output: Path | None, seconds: int, *, no_plan: bool, hide_accounts: bool
) -> None:
    """Pack what can be read of the cluster NAME into one zip, to be read and sent: status, events,
    the ends of logs, documents, states, history, settings, versions, checks and a plan.

    README.md in it begins with the verdict, and names each file and the reason for each missing
    one. Secrets, values of environment variables and user data are masked; of Terraform's states
    there are addresses, types and ids alone. Nothing changes on AWS. The cluster may be stopped,
    gone or made in part.
    """
    from terradask._workspace.diagnosis.archive import archive_of, check_path, write
    from terradask._workspace.diagnosis.collect import read_part, read_parts
    from terradask._workspace.diagnosis.parts import Part, parts_here, parts_of, plan_part
    from terradask._workspace.diagnosis.redaction import Redaction
    from terradask._workspace.missing_rights import missing_rights
    from terradask.errors import SettingsError
    from terradask_stacks.settings import validate_cluster_name

    at = datetime.now(UTC)
    path = _path(validate_cluster_name(name), output, at)
    check_path(path)
    progress = ProgressLines()
    # Apart: an AWS that doesn't answer keeps none of this machine.
    parts = [
        *parts_here(),
        Part(
            "doctor/machine.json",
            "Findings of terradask doctor here",
            partial(_findings, True),
            is_here=True,
        ),
        Part("doctor/account.json", "Findings of terradask doctor", partial(_findings, False)),
    ]
    workspace = None
    try:
        workspace = load_workspace(progress)
        parts += parts_of(workspace, name)
    except SettingsError as error:
        parts.append(Part("status.json", "Status", partial(_raise, error)))
    with progress.live():
        read = read_parts(
            parts, seconds=seconds, subject=name, progress=progress, of_aws=_aws(workspace)
        )
        if workspace is not None and not no_plan:
            read.append(read_part(plan_part(workspace, name, seconds)))
    redaction = Redaction([one.content for one in read], os.environ, hide_accounts=hide_accounts)
    rights = [] if workspace is None else missing_rights(workspace._context)
    archive = archive_of(name, read, redaction, rights)
    content = archive.to_bytes(at)
    write(path, content)
    for line in archive.verdict:
        message(line)
    for why, files in archive.reasons.items():
        message(f"not read: {', '.join(files)}: {why}")
    for one in archive.rights:
        message(str(one))
    if archive.reasons:
        message(f"in the file all the same: {', '.join(one.name for one in archive.files)}")
    answer({"path": str(path), "bytes": len(content), **archive.as_dict()}, str(path))


def _path(name: str, output: Path | None, at: datetime) -> Path:
    own = f"terradask-debug-{name}-{at:%Y%m%dT%H%M%SZ}.zip"
    if output is None:
        return Path(own)
    return output / own if output.is_dir() else output


def _aws(workspace: Workspace | None) -> str:
    """Return where AWS is asked."""
    endpoint = os.environ.get(ENDPOINT_VARIABLE)
    region = None if workspace is None else workspace.settings.workspace.region
    where = endpoint or region
    return f"AWS ({where})" if where else "AWS"


def _findings(here: bool) -> list[dict[str, Any]]:
    from terradask._doctor.doctor import CHECKS, TOOLCHAIN, examine

    checks = TOOLCHAIN if here else [each for each in CHECKS if each not in TOOLCHAIN]
    return [asdict(finding) for finding in examine(checks)]


def _raise(error: Exception) -> None:
    raise error
