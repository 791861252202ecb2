"""``terradask iam``: print the least IAM policies for people and pipelines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terradask.cli._completion import complete_cluster, complete_type
from terradask.cli._invocation import load_workspace, with_options
from terradask.cli._output import message, result, result_json

if TYPE_CHECKING:
    from terradask_modules.caller_policies import (
        Caller,
        CallerLimits,
        CallerScope,
        GitHubActions,
    )

_OPTIONS = (
    click.option(
        "--account",
        help="AWS account number; by default that of the credentials.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(["json", "terraform"]),
        default="json",
        show_default=True,
        help="json: the documents by name. terraform: a .tf.json file that creates the policies.",
    ),
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write one file per policy into this folder.",
    ),
)
_TRUST = (
    click.option(
        "--trust",
        metavar="github:OWNER/REPO",
        help="Also print the trust policy of a role for the jobs of this repository.",
    ),
    click.option("--environment", help="Deployment environment that these jobs must name."),
)
_LIMITS = (
    click.option(
        "--name",
        help="Name of these policies, beside others: terradask-WORKSPACE-user-NAME.",
    ),
    click.option(
        "--max-workers",
        type=click.IntRange(min=1),
        help="Most hosts of one Auto Scaling group, which each group of workers has for a market.",
    ),
    click.option(
        "--types",
        multiple=True,
        metavar="PATTERN",
        shell_complete=complete_type,
        help=(
            "Instance types of all hosts, schedulers' too, with * and ?: 'm6i.*'. May be repeated."
        ),
    ),
    click.option(
        "--clusters",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_cluster,
        help=(
            "Names of the only clusters to make, change and use; 'team-a-*': all that begin so. "
            'May be repeated. Needs workspace.isolation = "cluster".'
        ),
    ),
    click.option(
        "--no-gpu",
        "gpus",
        flag_value=False,
        default=True,
        help="No instance types with GPUs or other accelerators.",
    ),
)


@click.group(short_help="Print the least IAM policies for people and pipelines")
def iam() -> None:
    """Print the least IAM policies that people and pipelines need in this workspace, account and
    region.

    AWS limits a policy's size, so there may be several, numbered; a caller needs all of them.
    docs/iam.md lists the callers. A sentence, a comment in Terraform's configuration, describes
    what the holder can do with the policies, also indirectly.
    """


@iam.command(short_help="For creating, changing and destroying the network")
@with_options(
    *_OPTIONS,
    click.option(
        "--boundary/--no-boundary",
        default=True,
        show_default=True,
        help=(
            "Require a permissions boundary on every role, and print one if the settings "
            "name none. Without it, these policies make their holder the account's "
            "administrator."
        ),
    ),
)
def setup(boundary: bool, **options: Any) -> None:
    """Print the permissions to create, change and destroy the network. They can be detached after
    the first apply.

    The holder creates the roles of hosts, and can give them any permission within their permissions
    boundary. If the settings name no network.permissions_boundary, the output includes the policy
    terradask-WORKSPACE-boundary: an administrator creates it without attaching it, and the settings
    name it before the first apply.

    Daily work needs only `ongoing` or `user`.
    """
    _print("setup", boundary=boundary, **options)


@iam.command(short_help="For running clusters and planning the network")
@with_options(*_OPTIONS, *_TRUST)
def ongoing(trust: str | None, environment: str | None, **options: Any) -> None:
    """Print the permissions to deploy, start, stop and destroy clusters, and to plan the network.

    For a platform team and for the pipeline that applies. They don't read a cluster's keys, so the
    holder can't attach to one.
    """
    _print("ongoing", _trusted("ongoing", trust, environment), **options)


@iam.command(short_help="For planning in pull requests")
@with_options(*_OPTIONS, *_TRUST)
def ci(trust: str | None, environment: str | None, **options: Any) -> None:
    """Print the permissions to plan the network and clusters: reading, and locking states.

    With --trust and without --environment, the role is for jobs of pull requests.
    """
    _print("ci", _trusted("ci", trust, environment), **options)


@iam.command(short_help="For data scientists: clusters on the deployed network")
@with_options(*_OPTIONS, *_LIMITS)
def user(
    name: str | None,
    max_workers: int | None,
    types: tuple[str, ...],
    clusters: tuple[str, ...],
    gpus: bool,
    **options: Any,
) -> None:
    """Print the permissions to create, attach to, start, scale, stop and destroy clusters on the
    deployed network.

    The holder can run code on every cluster of the workspace.

    AWS holds the limits in each call that makes or changes a group of hosts, whatever program makes
    it; docs/iam.md lists what it can't hold, such as sums over clusters.
    """
    from terradask_modules.caller_policies import CallerLimits

    _print(
        "user",
        name=name,
        limits=CallerLimits(max_workers=max_workers, types=types, gpus=gpus, clusters=clusters),
        **options,
    )


def _trusted(caller: Caller, trust: str | None, environment: str | None) -> GitHubActions | None:
    from terradask_modules.caller_policies import parse_trust

    if trust is None:
        if environment is not None:
            raise click.UsageError("--environment needs --trust")
        return None
    if environment is None and caller != "ci":
        raise click.UsageError(
            "--trust needs --environment here: otherwise everyone who may open a pull request "
            "would get these permissions"
        )
    return parse_trust(trust, environment=environment)


def _print(
    caller: Caller,
    trusted: GitHubActions | None = None,
    *,
    name: str | None = None,
    limits: CallerLimits | None = None,
    boundary: bool = False,
    account: str | None,
    form: str,
    out: Path | None,
) -> None:
    from terradask._workspace.caller_scope import caller_scope
    from terradask_modules.caller_policies import (
        about,
        boundary_policy,
        bounded,
        caller_policies,
        policy_name,
    )

    workspace = load_workspace()
    scope = caller_scope(
        workspace.settings, workspace.aws, account=account, for_boundary=caller == "setup"
    )
    if limits is not None:
        scope = replace(scope, limits=limits)
        _warn_of_types(limits.types)
    role = policy_name(scope, caller, name)
    beside: dict[str, Any] = {}
    if caller == "setup" and scope.made_roles:
        own, given = bounded(scope), scope.permissions_boundary
        if given == own.permissions_boundary or (given is None and boundary):
            bound, document = boundary_policy(scope)
            beside, scope = {bound: document}, own
        if given is None:
            message(_about_roles(scope))
    documents = caller_policies(scope, caller, name=name)
    description = about(scope, caller)
    message(description)
    trust = None if trusted is None else trusted.policy(scope)
    if form == "terraform":
        files = {
            f"{role}.tf.json": {
                "//": description,
                **_terraform(role, documents, beside, trust, scope),
            }
        }
    else:
        files = {f"{each}.json": document for each, document in (documents | beside).items()}
        if trust is not None:
            files[f"{role}-trust.json"] = trust
    if out is None:
        result_json(
            files[f"{role}.tf.json"]
            if form == "terraform"
            else {each.removesuffix(".json"): d for each, d in files.items()}
        )
        return
    out.mkdir(parents=True, exist_ok=True)
    for each, document in files.items():
        (out / each).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    result("\n".join(str(out / each) for each in files))


def _warn_of_types(patterns: tuple[str, ...]) -> None:
    """Warn of patterns that match no type that botocore knows, which a newer one may."""
    from fnmatch import fnmatchcase

    from terradask._aws.known_types import known_types

    for pattern in patterns:
        if not any(fnmatchcase(one, pattern) for one in known_types()):
            message(f"warning: this version of botocore knows no instance type like {pattern}")


def _about_roles(scope: CallerScope) -> str:
    """Return advice about the permissions boundary of the roles that a caller creates."""
    arn = scope.permissions_boundary
    if arn is None:
        return (
            "warning: a caller with these policies can become the account's administrator. Leave "
            "--no-boundary out, or name a network.permissions_boundary"
        )
    return (
        f"create the policy {arn}, which is printed too, as an administrator, attach it to no user "
        "or role, and set, before the network is applied: network.permissions_boundary = "
        f'"{arn}"'
    )


def _terraform(
    role: str,
    documents: dict[str, Any],
    beside: dict[str, Any],
    trust: dict[str, Any] | None,
    scope: CallerScope,
) -> dict[str, Any]:
    """Return Terraform's configuration of the policies, of the unattached ones in `beside`, and of
    the role with the policies.
    """
    from terradask_modules.names import TAG_WORKSPACE

    tags = {TAG_WORKSPACE: scope.workspace}
    resources: dict[str, Any] = {
        "aws_iam_policy": {
            name: {"name": name, "policy": _escaped(document), "tags": tags}
            for name, document in (documents | beside).items()
        }
    }
    if trust is not None:
        resources["aws_iam_role"] = {
            role: {"name": role, "assume_role_policy": _escaped(trust), "tags": tags}
        }
        resources["aws_iam_role_policy_attachment"] = {
            name: {
                "role": f"${{aws_iam_role.{role}.name}}",
                "policy_arn": f"${{aws_iam_policy.{name}.arn}}",
            }
            for name in documents
        }
    return {"resource": resources}


def _escaped(document: dict[str, Any]) -> str:
    """Return a document as a Terraform string, with IAM's variables escaped."""
    return json.dumps(document).replace("${", "$${")
