"""``terradask list --all`` and ``plan --all``: the workspaces of several folders."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terradask._common.text_table import shortened
from terradask.cli._invocation import answer, current, flag, with_options
from terradask.cli._output import (
    SafeText,
    ago,
    caller_name,
    message,
    result,
    result_json,
    table,
    usd,
)
from terradask.cli._progress import ProgressLines
from terradask_host.words import cluster_word
from terradask_modules.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from terradask._clusters.overview import ClusterOverview
    from terradask._plans.folder import Plans
    from terradask._workspace.folders import InFolder
    from terradask._workspace.workspace import Workspace

#: Adds ``--all`` and ``--in``.
folder_options = with_options(
    flag(
        "--all",
        "every_folder",
        help="Every workspace: each folder with a terradask.toml, in and below this one.",
    ),
    click.option(
        "--in",
        "roots",
        multiple=True,
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="With --all: search in and below DIR; can be repeated.",
    ),
)

_HEADS = (
    *("folder", "account", "region", "workspace", "name", "state"),
    *("workers", "max", "age", "since", "owner", "$ an hour", "problem"),
)


def check_folders(roots: Sequence[Path], *, every_folder: bool, others: Sequence[str]) -> None:
    """Refuse ``--in`` without ``--all``, and options that are for one workspace."""
    if roots and not every_folder:
        raise click.UsageError("--in is for --all.")
    if every_folder and others:
        raise click.UsageError(f"{', '.join(others)}: for one workspace, not with --all.")


def list_folders(roots: Sequence[Path]) -> int:
    """Show the clusters of all workspaces; return the exit code."""
    from terradask._clusters.overview import ClusterOverview
    from terradask._workspace.folders import in_each, workspace_folders

    def clusters(workspace: Workspace) -> list[ClusterOverview]:
        found, settings = workspace.overview(), workspace.settings
        declared = sorted(settings.clusters.keys() - {one.name for one in found})
        of = settings.workspace.name
        nothing = Decimal(0)
        return [
            *found,
            *(ClusterOverview(of, name, "declared", hourly_usd=nothing) for name in declared),
        ]

    found = in_each(workspace_folders(roots or [Path()]), clusters)
    rows: list[list[object]] = []
    for one in found:
        place = [one.folder, one.account, one.region, one.workspace]
        if one.found is None:
            rows.append([*place, None, "failed", *[None] * 6, shortened(one.reason or "")])
            continue
        rows += [[*place, *_cluster(cluster), None] for cluster in one.found]
        if not one.found:
            rows.append([*place, *[None] * 9])
    _report_failures(found)
    answer(
        [
            {**one.as_dict(), "clusters": [cluster.as_dict() for cluster in one.found or ()]}
            for one in found
        ],
        table(_HEADS, rows),
    )
    return _exit_code(found)


def _cluster(one: ClusterOverview) -> list[object]:
    return [
        one.name,
        cluster_word(one.state),
        "/".join(f"{number:,}" for number in one.workers),
        one.max_workers and f"{one.max_workers:,}",
        ago(one.deployed_at),
        ago(one.started_at),
        caller_name(one.owner),
        usd(one.hourly_usd),
    ]


def plan_folders(
    roots: Sequence[Path], *, form: str, details: bool, refresh: bool, changed_only: bool
) -> int:
    """Show what applying each workspace's stacks would change; return the exit code."""
    from terradask._plans.render_terminal import to_text
    from terradask._workspace.folders import in_each, workspace_folders
    from terradask.cli._render_folders import several_document, several_markdown, several_text
    from terradask_stacks.loading import STATE_DIR_VARIABLE

    if os.environ.get(STATE_DIR_VARIABLE):
        raise InvalidInput(
            "all workspaces would share one folder for their stacks and locked answers",
            given=f"{STATE_DIR_VARIABLE}={os.environ[STATE_DIR_VARIABLE]}",
            allowed=f"--all without {STATE_DIR_VARIABLE}",
            advice=f"unset {STATE_DIR_VARIABLE}, or plan each workspace with -C",
        )
    progress = ProgressLines()

    def plans(workspace: Workspace) -> Plans:
        message(f"{workspace.settings_path}:")
        return workspace.plan(refresh=refresh, changed_only=changed_only)

    with progress.live():
        # Terraform takes all processors for one.
        found = in_each(workspace_folders(roots or [Path()]), plans, progress=progress, at_once=1)
    _report_failures(found)
    if current().as_json or form == "json":
        result_json(several_document(found))
    elif form == "markdown":
        result(SafeText(several_markdown(found).removesuffix("\n")))
    else:
        for one in found:
            if one.found is not None and one.found.report.verdict != "no changes":
                result(f"{one.folder}\n\n{to_text(one.found.report, details=details)}")
        result(several_text(found))
    codes = [error.exit_code for one in found if one.found for error in one.found.errors]
    return _exit_code(found) or (codes[0] if codes else 0)


def _report_failures(found: Sequence[InFolder[Any]]) -> None:
    for one in found:
        if one.error is not None:
            message(f"{one.folder}: {one.error}")


def _exit_code(found: Sequence[InFolder[Any]]) -> int:
    """Return the exit code of the first error; 0 without one."""
    return next((one.error.exit_code for one in found if one.error is not None), 0)
