"""Find and remove leftovers of interrupted Terraform commands, of a cluster or of the network.

When Terraform is interrupted, the provider drops its current request, but AWS may have completed
it. A group or a secret then exists under a cluster's name but not in the state: it blocks the next
attempt, and no ``terraform destroy`` removes it. Network resources are imported into the next plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from terradask._aws.autoscaling import Groups
from terradask._cleanup.adopt import imports, unfinished_security_groups, unknown_addresses
from terradask._cleanup.delete import (
    delete_objects,
    delete_resource,
    delete_resources,
    wait_for_groups,
    wait_for_hosts,
)
from terradask._cleanup.resources import (
    AUTOSCALING_GROUP,
    SECRET_ADDRESS,
    Resource,
    cluster_resource_types,
    unknown,
)
from terradask._cleanup.search import (
    ClusterSearch,
    describe_secret,
    find_groups_and_secret,
    find_network,
    find_rules_in,
    find_security_groups,
)
from terradask._common.progress import Message, Progress, phase
from terradask._observe.run_costs.book import close_last_account
from terradask._observe.secret import foreign_secret
from terradask._observe.store import EVENTS, STATE, holds_nothing
from terradask.errors import AccessDenied, ClusterError
from terradask_modules.kinds import KINDS
from terradask_modules.names import NETWORK_STACK, resource_name
from terradask_modules.where import ClusterWhere, Where
from terradask_stacks.bare_stack import Blocks

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._network.deployed import DeployedNetwork
    from terradask._observe.record import ClusterRecord


#: Returns a state's ids, address -> id; a function, since reading them starts a process.
_Ids = Callable[[], Mapping[str, str]]


@dataclass(frozen=True)
class ClusterRecovery:
    """Ends and removes resources before and after Terraform works on a cluster."""

    aws: Aws
    record: ClusterRecord
    network: DeployedNetwork
    progress: Progress

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.record.name

    @property
    def where(self) -> ClusterWhere:
        """The cluster."""
        return self.network.where.of_cluster(self.name)

    def scale_to_zero(self) -> None:
        """Scale groups to zero, found by tags and names: a descriptor may be missing."""
        groups, state = Groups.found(self.aws, workspace=self.where.workspace, cluster=self.name)
        groups.zero(state)
        # Deleting a group deletes its schedules; this is for a destroy that fails earlier.
        with suppress(AccessDenied):
            groups.clear_schedules()

    def remove_all(self) -> bool:
        """Remove all resources of a cluster without a state; return whether there were any."""
        had_groups_or_secret = self._remove_groups_and_secret()
        return self.remove_unknown(dict) or had_groups_or_secret

    def remove_leftovers(self, creates: Collection[str], ids: _Ids) -> None:
        """Remove resources outside the state that a plan creates, left by an interrupted apply, and
        a secret that another caller recreated or scheduled for deletion.

        Raises `ClusterError`; `ForeignResources` for a secret without the cluster's tags.
        """
        found = find_groups_and_secret(self.aws, self.where)
        if SECRET_ADDRESS in creates:
            found |= self._blocking_secret()
        left = {address: resource for address, resource in found.items() if address in creates}
        if left:
            # Not those of a later apply: Terraform then refuses the plan.
            known = ids()
            left = {
                key: one for key, one in left.items() if not _is_same_resource(one, known.get(key))
            }
        if left:
            self._refuse_groups_with_instances(left.values())
            names = ", ".join(resource.id for resource in left.values())
            self.progress(Message(f"removing leftovers of an interrupted deployment: {names}"))
            self._delete(left.values())
        # After the groups: their instances would be in these security groups.
        if not cluster_resource_types().isdisjoint(
            address.partition(".")[0] for address in creates
        ):
            self.remove_unknown(ids)

    def remove_unknown(self, ids: _Ids) -> bool:
        """Remove the cluster's own resources that the state lacks.

        Terraform can't create them again, nor destroy the resources that contain them.
        """
        return self._remove(self._found(), ids)

    def remove_blockers(self, ids: _Ids) -> None:
        """Remove resources that the state lacks, and wait for hosts that block a deletion."""
        found = self._found()
        self._remove(found, ids)
        # Terraform would try only once.
        if any(KINDS[one.type].holds_hosts for one in found):
            with phase(self.progress, "end hosts", self.name):
                wait_for_hosts(self.aws, self.where)

    def _found(self) -> list[Resource]:
        return ClusterSearch.on(self.aws, self.network).find(self.name)

    def _remove(self, found: list[Resource], ids: _Ids) -> bool:
        left = unknown(found, ids()) if found else []
        if left:
            with phase(self.progress, "remove", self.name):
                delete_resources(self.aws, left, progress=self.progress, cluster=self.name)
        return bool(left)

    def forget_empty_state(self) -> None:
        """Remove the empty state of an interrupted first plan: it would count as a cluster."""
        objects = self.record.objects
        with suppress(Exception):
            # With another object beside it, such as its lock, it is in use.
            if holds_nothing(objects):
                objects.delete([STATE, *objects.names(EVENTS)])

    def forget(self) -> None:
        """Remove a cluster's leftovers after Terraform has destroyed it."""
        self._remove_groups_and_secret()
        # Its hosts have ended, and its documents still exist.
        close_last_account(self.record, "destroyed")
        delete_objects(self.record.objects)

    def _remove_groups_and_secret(self) -> bool:
        left = find_groups_and_secret(self.aws, self.where)
        self._delete(left.values())
        return bool(left)

    def _blocking_secret(self) -> dict[str, Resource]:
        """Return the secret of this name, even one to be deleted; refuse another owner's."""
        where, name = self.where, self.where.secret_id
        found = describe_secret(self.aws.client("secretsmanager"), name)
        if found is not None and not found.is_of(where):
            advice = (
                f"if it isn't needed: aws secretsmanager delete-secret --secret-id {name} "
                f"--force-delete-without-recovery; then terradask apply {self.name} makes the "
                "cluster's own. Find out who made it"
            )
            raise foreign_secret(self.name, name, found.tags, where.tags, advice)
        return {} if found is None else {SECRET_ADDRESS: found}

    def _delete(self, resources: Iterable[Resource]) -> None:
        gone = list(resources)
        for resource in gone:
            delete_resource(self.aws, resource)
        wait_for_groups(self.aws, [one.id for one in gone if one.type == AUTOSCALING_GROUP])

    def _refuse_groups_with_instances(self, resources: Iterable[Resource]) -> None:
        """Refuse to remove groups with instances: they may be all of a running cluster."""
        busy = [
            resource.id
            for resource in resources
            if resource.description.get("DesiredCapacity") or _has_instances(resource)
        ]
        if busy:
            name = self.name
            raise ClusterError(
                f"groups of cluster {name!r} have instances, but are missing in Terraform's state: "
                "it may have been lost",
                cluster=name,
                given=", ".join(busy),
                advice=f"terradask destroy {name} ends them; or restore "
                f"clusters/{name}/terraform.tfstate from the bucket's versions",
            )


def _has_instances(group: Resource) -> bool:
    """Return whether a group has instances that aren't terminating."""
    return any(
        not one["LifecycleState"].startswith("Terminat")
        for one in group.description.get("Instances", ())
    )


def _is_same_resource(found: Resource, identity: str | None) -> bool:
    """Return whether a state's id means this resource, not a recreated or deleted secret."""
    about = found.description
    return identity == about.get("ARN", found.id) and not about.get("DeletedDate")


# ---- the network ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class NetworkRecovery:
    """Network resources in AWS that Terraform's state lacks."""

    aws: Aws
    where: Where
    ids: _Ids
    #: Returns the network's configuration; called only for imports.
    configuration: Callable[[], Mapping[str, Any]]
    #: Kinds that AWS doesn't list by tags: `resources_to_find`.
    to_find: Blocks
    progress: Progress

    def imports(self) -> dict[str, str]:
        """Return resources that are configured and exist but aren't in the state: address -> id."""
        ids, configuration = self.ids(), self.configuration()
        if not unknown_addresses(configuration, ids):
            return {}
        found = self._found()
        wanted = imports(configuration, ids, [*found, *find_rules_in(self.aws, found)])
        if wanted:
            self.progress(
                Message(
                    f"{len(wanted)} existing resources are missing in Terraform's state: the plan "
                    "imports them"
                )
            )
        return wanted

    def remove_unfinished_groups(self, creates: Iterable[str]) -> None:
        """Remove open security groups of an interrupted apply, if a plan creates them."""
        kinds = (address.partition(".") for address in creates)
        names = {
            resource_name(self.where.workspace, name)
            for kind, _, name in kinds
            if kind == "aws_security_group"
        }
        if not names:
            return
        found = unfinished_security_groups(find_security_groups(self.aws, self.where))
        mine = [
            group for group in unknown(found, self.ids()) if group.description["GroupName"] in names
        ]
        delete_resources(self.aws, mine, progress=self.progress)

    def remove_unknown(self) -> bool:
        """Remove all resources that the state lacks, which would block the removal of others."""
        found = self._found()
        # Rules that refer to groups in the state too, since these can't be deleted before them.
        rules = [rule for rule in find_rules_in(self.aws, found) if rule.is_of(self.where)]
        left = unknown([*found, *rules], self.ids())
        if left:
            with phase(self.progress, "remove", NETWORK_STACK):
                delete_resources(self.aws, left, progress=self.progress)
        return bool(left)

    def _found(self) -> list[Resource]:
        return find_network(self.aws, self.where, self.to_find)
