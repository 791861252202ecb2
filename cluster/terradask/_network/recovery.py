"""After an interruption of the network: take what exists into the next plan, or remove it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from terradask._network.adoption import imports, unfinished_security_groups, unknown_addresses
from terradask._network.removal import remove_network
from terradask._network.resources import Resource, find_network, find_rules, find_security_groups
from terradask._progress import Message, Progress, phase
from terradask_modules.names import NETWORK_STACK, resource_name

if TYPE_CHECKING:
    from terradask._account.aws import Aws
    from terradask._stacks.stack import Stack


class NetworkRecovery:
    """What AWS has of a workspace's network beside what Terraform's state knows.

    Parameters
    ----------
    aws
        Session for the workspace's account and region.
    workspace, bucket
        Names.
    stack
        The network's stack, synthesised.
    progress
        Gets every event.
    """

    def __init__(self, aws: Aws, *, workspace: str, bucket: str, stack: Stack, progress: Progress) -> None:
        self._aws = aws
        self._workspace = workspace
        self._bucket = bucket
        self._stack = stack
        self._progress = progress

    def ids(self) -> Mapping[str, str]:
        """Return what the state knows: address -> id."""
        state = self._stack.terraform.state()
        return {} if state is None else state.ids

    def imports(self) -> dict[str, str]:
        """Return what is configured, exists, and isn't in the state: address -> id. AWS is asked only where something isn't."""
        ids, configuration = self.ids(), self._stack.terraform.configuration()
        if not unknown_addresses(configuration, ids):
            return {}
        found = self._found()
        wanted = imports(configuration, ids, [*found, *find_rules(self._aws, found)])
        if wanted:
            self._progress(Message(f"{len(wanted)} resources exist that Terraform's state doesn't know: the plan imports them"))
        return wanted

    def remove_unfinished_groups(self, creates: Iterable[str]) -> None:
        """Remove security groups that an interrupted apply left open to all destinations, where a plan is to create them."""
        kinds = (address.partition(".") for address in creates)
        names = {resource_name(self._workspace, name) for kind, _, name in kinds if kind == "aws_security_group"}
        if not names:
            return
        found = unfinished_security_groups(find_security_groups(self._aws, workspace=self._workspace))
        mine = [group for group in self._unknown(found) if group.description["GroupName"] in names]
        remove_network(self._aws, mine, progress=self._progress)

    def remove_unknown(self) -> bool:
        """Remove everything that the state doesn't know: it would stand in the way of removing the rest.

        Returns
        -------
        bool
            Whether there was something.
        """
        unknown = self._unknown(self._found())
        if unknown:
            with phase(self._progress, "remove", NETWORK_STACK):
                remove_network(self._aws, unknown, progress=self._progress)
        return bool(unknown)

    def _found(self) -> list[Resource]:
        configuration = self._stack.terraform.configuration()
        return find_network(self._aws, workspace=self._workspace, bucket=self._bucket, configuration=configuration)

    def _unknown(self, found: Iterable[Resource]) -> list[Resource]:
        # With their types: a role and its instance profile have the same name.
        known = {(address.partition(".")[0], identity) for address, identity in self.ids().items()}
        return [resource for resource in found if (resource.type, resource.id) not in known]
