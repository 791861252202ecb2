"""``Applier``: apply saved plans, destroy stacks without a plan, and sweep orphans."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from terradask._aws.group_facts import end_outdated
from terradask._aws.s3 import ObjectStore
from terradask._aws.service_roles import ensure_service_roles
from terradask._cleanup.orphans import Inventory
from terradask._cleanup.outside_rules import refuse_named_groups, security_groups
from terradask._cleanup.scan import Scan
from terradask._cleanup.sweep import ClusterActions, Sweeper
from terradask._observe.documents import read_descriptor
from terradask._observe.keys import check_may_change
from terradask._observe.store import HOSTS
from terradask._plans.impact import LOST, refuse_while_running
from terradask._plans.policy_gate import PolicyGate
from terradask._plans.saved import Plan
from terradask._workspace.clusters import Clusters
from terradask._workspace.context import WorkspaceContext, configuration_of
from terradask._workspace.host_packages import HostPackages
from terradask._workspace.images import Images
from terradask._workspace.stack import Stack
from terradask._workspace.stack_runner import StackRunner
from terradask.errors import (
    AccessDenied,
    AwsError,
    BaselineError,
    ClusterNotFound,
    NoBaseline,
    TerraformError,
)
from terradask_host.rules.limits import OWNER_TAG, SIZE_TAG
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.settings import validate_cluster_name

#: A plan that creates this address belongs to a new network.
BUCKET_ADDRESS = "aws_s3_bucket.workspace"


@dataclass(frozen=True)
class Applier:
    """Apply given plans, and destroy stacks, even after an interruption."""

    context: WorkspaceContext
    stacks: StackRunner
    clusters: Clusters
    packages: HostPackages
    gate: PolicyGate

    def apply(self, plan: Plan) -> None:
        """Apply a plan, as documented at `Workspace.apply`."""
        self.gate.refuse_forbidden(plan)
        if plan.removes:
            # Read here, while the stack's folder is free; running clusters are checked last.
            _ = plan.summary
        sizes: Mapping[str, str] = {}
        if plan.stack != NETWORK_STACK and not plan.destroy:
            sizes = self._refuse_beyond_limits(plan)
        try:
            if plan.stack == NETWORK_STACK:
                self._network(plan)
                self.context.network.forget()
            else:
                self._cluster(plan, sizes)
        except TerraformError:
            self._record_history("failed", plan)
            raise
        self._record_history("destroyed" if plan.destroy else "applied", plan)
        self._note(plan)

    def note(self, plan: Plan) -> None:
        """Record an apply, as documented at `Workspace.note_applied`."""
        if plan.stack == NETWORK_STACK and not plan.destroy:
            self._complete(plan)
        self._note(plan)

    def _record_history(self, action: str, plan: Plan) -> None:
        if plan.stack == NETWORK_STACK and plan.destroy:
            # The bucket is deleted with the network.
            return
        self.stacks.states.history.record(action, plan.stack, plan)

    def _note(self, plan: Plan) -> None:
        if plan.destroy:
            return
        if plan.stack != NETWORK_STACK:
            self.clusters.one(plan.stack).keep()
        try:
            self.stacks.states.applied.write(plan.stack, plan.folder)
        except AwsError as error:
            if plan.stack in (NETWORK_STACK, *self.context.settings.clusters):
                self.context.warn(
                    f"{plan.stack}: --changed-only will plan it again: {error.problem}"
                )

    def _network(self, plan: Plan) -> None:
        with self.stacks.locked(plan.stack) as stack:
            plan.check()
            # A folder from another machine may not be initialised.
            stack.init()
            recovery = self.stacks.network_recovery(stack)
            if plan.destroy:
                self.clusters.refuse_network_in_use()
                self._refuse_named_groups(stack)
                recovery.remove_unknown()
                stack.apply(plan)
                return
            self._refuse_while_running(stack, plan)
            has_bucket = BUCKET_ADDRESS not in plan.creates
            with self._packages(stack, has_bucket=has_bucket):
                ensure_service_roles(self.context.aws)
                recovery.remove_unfinished_groups(plan.creates)
                kept = keeping_host_objects(self.context, stack)
                with kept if has_bucket else nullcontext():
                    stack.apply(plan)

    def _refuse_while_running(self, stack: Stack, plan: Plan) -> None:
        if plan.removes:
            refuse_while_running(plan.summary, self.clusters.running(plan.stack))
            changes = plan.summary.changes
            self._refuse_named_groups(stack, {one.address for one in changes if one.action in LOST})

    def _refuse_named_groups(self, stack: Stack, lost: Collection[str] | None = None) -> None:
        """Refuse to remove security groups of these addresses, by default all of the stack, while
        AWS would refuse it too.
        """
        ids = stack.ids()
        groups = security_groups(ids).items()
        removed = {one for key, one in groups if one and (lost is None or key in lost)}
        if removed:
            try:
                refuse_named_groups(self.context.aws, stack.name, removed, known=ids.values())
            except AccessDenied as error:
                self.context.warn(
                    "can't check whether rules of other security groups keep AWS from removing "
                    f"those of {stack.name}: {error.problem}"
                )

    @contextmanager
    def _packages(self, stack: Stack, *, has_bucket: bool) -> Iterator[None]:
        """Get the host program's packages before any change, and upload them as soon as the bucket
        exists: running clusters launch hosts from changed templates at once.
        """
        if not self.packages.are_needed:
            yield
            return
        program = self.packages.planned(stack)
        archives = self.packages.gather(program)
        if has_bucket:
            self.packages.put(program, archives)
        yield
        if not has_bucket:
            self.packages.put(program, archives)

    def _complete(self, plan: Plan) -> None:
        """Upload packages that an interruption or another program has left out. Without permission,
        only warn: starts check that hosts can boot.
        """
        try:
            with self._packages(self.stacks.stack(plan.stack), has_bucket=True):
                return
        except AccessDenied as error:
            self.context.warn(f"can't upload missing packages for hosts: {error.problem}")

    def _cluster(self, plan: Plan, sizes: Mapping[str, str]) -> None:
        with self.stacks.locked(plan.stack) as stack:
            plan.check()
            if not plan.destroy:
                self._refuse_while_running(stack, plan)
            recovery = self.clusters.recovery(plan.stack)
            if plan.destroy:
                stack.check_state()
                self._refuse_named_groups(stack)
                self.clusters.one(plan.stack).note_closing()
                recovery.scale_to_zero()
            stack.init()
            if plan.destroy:
                recovery.remove_blockers(stack.ids)
            else:
                # First: an apply keeps the cluster, even after an interruption.
                self.clusters.one(plan.stack).keep()
                recovery.remove_leftovers(plan.creates, stack.ids)
            stack.apply(plan)
            if plan.destroy:
                recovery.forget()
                stack.remove()
            else:
                self._note_prepared(plan.stack, sizes)
                self._end_outdated(plan.stack)
        if plan.destroy:
            self.stacks.states.forget_applied(plan.stack)

    def _note_prepared(self, cluster: str, sizes: Mapping[str, str]) -> None:
        """Tag groups with the owner of prepared hosts and with these sizes, by which limits count
        them before the first start. Without the permission, only warn.
        """
        context, deployment = self.context, self.clusters.one(cluster)
        if not sizes or deployment.current_run() is not None:
            return
        of_groups = {key: {SIZE_TAG: size} for key, size in sizes.items() if size}
        try:
            deployment.groups.tag({OWNER_TAG: context.aws.caller_arn}, of_groups)
        except AccessDenied as error:
            context.warn(f"limits count the prepared hosts for no owner: {error.problem}")

    def _end_outdated(self, cluster: str) -> None:
        """Have AWS prepare hosts anew that were prepared by an earlier template. Without the
        permission, only warn: the cluster is applied.
        """
        context = self.context
        try:
            ended = end_outdated(
                context.aws, workspace=context.settings.workspace.name, cluster=cluster
            )
        except AccessDenied as error:
            context.warn(f"can't end prepared hosts of an earlier template: {error.problem}")
            return
        if ended:
            # What failed on them doesn't concern the next ones.
            objects = self.clusters.one(cluster).objects
            objects.delete(f"{HOSTS}{instance_id}.json" for instance_id in ended)
            context.warn(f"AWS prepares anew, by the changed template: {', '.join(ended)}")

    def _refuse_beyond_limits(self, plan: Plan) -> Mapping[str, str]:
        """Refuse a cluster that the workspace's limits never allow to start; return its hosts'
        sizes, as `check_planned`, if it has prepared ones. Raises `QuotaExceeded`.
        """
        from terradask._catalog.prices.groups import PlannedStack
        from terradask._clusters.limits import PlannedCluster, check_planned
        from terradask_stacks.groups import standby_of

        context = self.context
        baseline = context.network.baseline()
        if baseline.limits and (content := PlannedStack.of(plan.document).descriptor):
            planned = PlannedCluster.of_descriptor(read_descriptor(content, plan.stack))
            sizes = check_planned(context.aws, baseline, planned, context.settings.workspace.tags)
            return sizes if standby_of(planned.settings) else {}
        return {}

    # ---- without a plan, from any machine --------------------------------------------------------

    def destroy_cluster(self, name: str) -> None:
        """Destroy a cluster, as documented at `Workspace.destroy_cluster`."""
        self.stacks.check_tools(synthesises=False)
        validate_cluster_name(name)
        self.stacks.states.check_not_rolled_back(name)
        if not self.clusters.one(name).objects.names():
            if self.clusters.recovery(name).remove_all():
                return
            raise ClusterNotFound(
                f"there is no cluster {name!r} in this workspace",
                cluster=name,
                given=f"nothing under clusters/{name}/ in s3://{self.context.bucket}",
                advice="terradask list shows the existing clusters",
            )
        deployment = self.clusters.one(name)
        if deployment.exists:
            doing = f"destroy it (`terradask stop {name}` ends its hosts)"
            check_may_change(self.context.aws, deployment.descriptor, doing)
        with ThreadPoolExecutor(1) as pool, self.stacks.locked(name) as stack:
            stack.check_state()
            self._refuse_named_groups(stack)
            deployment.note_closing()
            # Zero the groups first, so that no host costs more.
            recovery = self.clusters.recovery(name)
            zeroed = pool.submit(recovery.scale_to_zero)
            configuration_of(self.context).to_destroy(name)
            stack.init()
            zeroed.result()
            deployment.keep_events()
            recovery.remove_blockers(stack.ids)
            stack.destroy(refresh=False)
            recovery.forget()
            stack.remove()
        self.stacks.states.forget_applied(name)
        self.stacks.states.history.record("destroyed", name)

    def destroy_network(self) -> None:
        """Destroy the network, as documented at `Workspace.destroy_network`."""
        self.stacks.check_tools(synthesises=False)
        self.clusters.refuse_network_in_use()
        with self.stacks.locked(NETWORK_STACK) as stack:
            self.stacks.states.check_not_rolled_back(NETWORK_STACK)
            self._refuse_named_groups(stack)
            configuration_of(self.context).to_destroy(NETWORK_STACK)
            stack.init()
            images = Images(self.context)
            images.end_instances()
            recovery = self.stacks.network_recovery(stack)
            removed = recovery.remove_unknown()
            if stack.ids():
                stack.destroy(refresh=True)
            elif not removed:
                context = self.context
                raise NoBaseline(
                    "there is no network to destroy",
                    given=(
                        f"workspace {context.name} in {context.aws.region}, account "
                        f"{context.aws.account_id}"
                    ),
                    advice="check workspace.name, workspace.region and the AWS account",
                )
            stack.remove()
            images.remove_all()
        self.context.network.forget()

    def sweeper(self) -> Sweeper:
        """Return the sweeper of the workspace's orphans."""
        context, states = self.context, self.stacks.states
        place = states.place(NETWORK_STACK)

        def scan() -> Inventory:
            folders = context.stacks, context.plans
            return Scan(context.aws, context.network, *folders, place).run()

        actions = ClusterActions(
            destroy=self.destroy_cluster, unlock=states.unlock, hold=self.stacks.holding_state
        )
        return Sweeper(context.aws, context.network.where, scan, actions, context.progress)


@contextmanager
def keeping_host_objects(context: WorkspaceContext, stack: Stack) -> Iterator[None]:
    """Put back the host program and scripts that an apply of the network's stack deletes, and with
    which hosts of deployed clusters boot.

    Until its next apply, a cluster launches hosts with the user data of its last one, which names
    these objects by SHA-256; Terraform deletes them when it puts others in their place.

    Permissions needed: ``s3:GetObject`` and ``s3:PutObject`` on ``host/*`` in the bucket.
    """
    try:
        host = context.network.baseline().host
    except BaselineError:
        yield
        return
    resources: Mapping[str, Any] = stack.terraform.configuration()["resource"]
    planned = {each["key"] for each in resources["aws_s3_object"].values()}
    objects = ObjectStore(context.aws, context.bucket)
    found = {key: objects.read(key) for key in {host.wheel_key, *host.script_keys} - planned}
    try:
        yield
    finally:
        for key, stored in found.items():
            if stored is not None:
                objects.write(key, stored.content, content_type="application/octet-stream")
