"""Import an interrupted network's existing resources into the next plan, or remove them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from terradask._cleanup.adopt import imports, unfinished_security_groups, unknown_addresses
from terradask._cleanup.delete import delete_resources
from terradask._cleanup.resources import Owner, Resource, unknown
from terradask._cleanup.search import find_network, find_rules, find_security_groups
from terradask._common.progress import Message, Progress, phase
from terradask_modules.names import NETWORK_STACK, resource_name

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._stacks.stack import Stack


class NetworkRecovery:
    """A workspace's network resources in AWS that Terraform's state doesn't know."""

    def __init__(
        self, aws: Aws, *, workspace: str, bucket: str, stack: Stack, progress: Progress
    ) -> None:
        self._aws = aws
        self._workspace = workspace
        self._bucket = bucket
        self._stack = stack
        self._progress = progress

    def imports(self) -> dict[str, str]:
        """Return what is configured and exists, but isn't in the state: address -> id."""
        ids, configuration = self._stack.ids(), self._stack.terraform.configuration()
        if not unknown_addresses(configuration, ids):
            return {}
        found = self._found()
        wanted = imports(configuration, ids, [*found, *find_rules(self._aws, found)])
        if wanted:
            self._progress(
                Message(
                    f"{len(wanted)} resources exist that Terraform's state doesn't know: the "
                    "plan "
                    "imports them"
                )
            )
        return wanted

    def remove_unfinished_groups(self, creates: Iterable[str]) -> None:
        """Remove security groups that an apply left open to all, if a plan creates them."""
        kinds = (address.partition(".") for address in creates)
        names = {
            resource_name(self._workspace, name)
            for kind, _, name in kinds
            if kind == "aws_security_group"
        }
        if not names:
            return
        found = unfinished_security_groups(
            find_security_groups(self._aws, workspace=self._workspace)
        )
        mine = [
            group
            for group in unknown(found, self._stack.ids())
            if group.description["GroupName"] in names
        ]
        delete_resources(self._aws, mine, progress=self._progress)

    def remove_unknown(self) -> bool:
        """Remove everything that the state doesn't know: it would block the removal of the rest."""
        owner, found = Owner(self._workspace), self._found()
        # Also rules with groups in the state, which can't be deleted before them.
        rules = [rule for rule in find_rules(self._aws, found) if owner.owns(rule)]
        left = unknown([*found, *rules], self._stack.ids())
        if left:
            with phase(self._progress, "remove", NETWORK_STACK):
                delete_resources(self._aws, left, progress=self._progress)
        return bool(left)

    def _found(self) -> list[Resource]:
        configuration = self._stack.terraform.configuration()
        return find_network(
            self._aws, workspace=self._workspace, bucket=self._bucket, configuration=configuration
        )
