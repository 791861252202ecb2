"""Import an interrupted network's existing resources into the next plan, or remove them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from terradask._cleanup.adopt import imports, unfinished_security_groups, unknown_addresses
from terradask._cleanup.delete import delete_resources
from terradask._cleanup.resources import Owner, Resource, unknown
from terradask._cleanup.search import find_network, find_rules_in, find_security_groups
from terradask._common.progress import Message, Progress, phase
from terradask_modules.names import NETWORK_STACK, resource_name

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._stacks.stack import Stack


@dataclass(frozen=True)
class NetworkRecovery:
    """A workspace's network resources in AWS that Terraform's state doesn't know."""

    aws: Aws
    _: KW_ONLY
    workspace: str
    bucket: str
    stack: Stack
    progress: Progress

    def imports(self) -> dict[str, str]:
        """Return what is configured and exists, but isn't in the state: address -> id."""
        ids, configuration = self.stack.ids(), self.stack.terraform.configuration()
        if not unknown_addresses(configuration, ids):
            return {}
        found = self._found()
        wanted = imports(configuration, ids, [*found, *find_rules_in(self.aws, found)])
        if wanted:
            self.progress(
                Message(
                    f"{len(wanted)} resources exist that Terraform's state doesn't know: the plan "
                    "imports them"
                )
            )
        return wanted

    def remove_unfinished_groups(self, creates: Iterable[str]) -> None:
        """Remove security groups that an apply left open to all, if a plan creates them."""
        kinds = (address.partition(".") for address in creates)
        names = {
            resource_name(self.workspace, name)
            for kind, _, name in kinds
            if kind == "aws_security_group"
        }
        if not names:
            return
        found = unfinished_security_groups(find_security_groups(self.aws, workspace=self.workspace))
        mine = [
            group
            for group in unknown(found, self.stack.ids())
            if group.description["GroupName"] in names
        ]
        delete_resources(self.aws, mine, progress=self.progress)

    def remove_unknown(self) -> bool:
        """Remove everything that the state doesn't know: it would block the removal of the rest."""
        owner, found = Owner(self.workspace), self._found()
        # Also rules with groups in the state, which can't be deleted before them.
        rules = [rule for rule in find_rules_in(self.aws, found) if owner.owns(rule)]
        left = unknown([*found, *rules], self.stack.ids())
        if left:
            with phase(self.progress, "remove", NETWORK_STACK):
                delete_resources(self.aws, left, progress=self.progress)
        return bool(left)

    def _found(self) -> list[Resource]:
        configuration = self.stack.terraform.configuration()
        return find_network(
            self.aws, workspace=self.workspace, bucket=self.bucket, configuration=configuration
        )
