"""Switches for occasional behaviour of AWS, networks and hosts, from lack of capacity to a full
disk; and for simulated workers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

from terradask_simulator.errors import SimulatorError
from terradask_simulator.process import SimulatorInfo, request_control

__all__ = ["Switched", "Switches"]


class Switched:
    """A switch that was turned; as a context manager it turns the switch back at the end of the
    block.

    Parameters
    ----------
    undo
        Turns it back.
    """

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        """Leave the switch as it was turned."""

    def __exit__(self, *error: object) -> None:
        """Turn it back."""
        self._undo()


class Switches:
    """The switches of a running embedded AWS; every `Simulator` has them, also one that another
    process started.

    Parameters
    ----------
    info
        The embedded AWS, as ``terradask_simulator.lifecycle.status`` returns it.

    Notes
    -----
    Each takes effect at once, for the entire account. Most return a `Switched`: ``with
    simulator.no_capacity(): ...`` ends with the block, a plain call lasts until the switch is
    turned back. Switches of hosts raise `SimulatorError` if nothing boots.
    """

    def __init__(self, info: SimulatorInfo) -> None:
        self.info = info

    def no_capacity(
        self,
        instance_type: str | None = None,
        zone: str | None = None,
        market: Literal["on-demand", "spot"] | None = None,
        *,
        beyond: int = 0,
    ) -> Switched:
        """Fail launches for lack of capacity, in groups and from RunInstances.

        Parameters
        ----------
        instance_type
            Such as ``m7i.large`` or ``m7i.*``; unset, any.
        zone, market
            Where; unset, any.
        beyond
            The total capacity of these pools in instances; by default none.
        """
        return self._switched(
            "no_capacity",
            instance_type=instance_type or "*",
            zone=zone or "*",
            market=market or "*",
            beyond=beyond,
        )

    def allow_capacity(self) -> None:
        """End every `no_capacity`, so that launches succeed again."""
        self._turn("allow_capacity", {})

    def add_account(self, account: str = "210987654321") -> str:
        """Add an account, for good, and return the ARN of its role with all permissions, which
        callers of the owner's account may assume.
        """
        self._turn("add_account", {"account": account})
        return f"arn:aws:iam::{account}:role/OrganizationAccountAccessRole"

    def set_quota(self, quota_code: str, value: float, *, service_code: str = "ec2") -> Switched:
        """Change one of the account's quotas in Service Quotas, and approve requests up to the new
        value.

        Parameters
        ----------
        quota_code
            Such as ``L-1216C47A``, vCPUs of standard instances on demand.
        value
            The new value.
        service_code
            ``ec2`` or ``autoscaling``.

        Raises
        ------
        SimulatorError
            The simulator has no such quota.
        """
        return self._switched(
            "set_quota", quota_code=quota_code, value=value, service_code=service_code
        )

    def enforce_quotas(self, on: bool = True) -> Switched:
        """Refuse launches beyond the vCPU quotas, by default those of an established account:
        10,000 for standard instances.

        Parameters
        ----------
        on
            False allows all launches again.
        """
        return self._switched("enforce_quotas", on=on)

    def refuse_account(
        self, state: Literal["free-plan", "unverified", "blocked", "denied", ""] = "free-plan"
    ) -> Switched:
        """Refuse launches as for an account on AWS's Free plan, with few instance types, or for one
        that can't launch: not verified yet, blocked, or denied by a policy of its organisation.

        Parameters
        ----------
        state
            Empty switches it off.
        """
        return self._switched("refuse_account", state=state)

    def set_spot_price(
        self, instance_type: str, usd: Decimal | float | str, zone: str | None = None
    ) -> Switched:
        """Change a spot price, shown in the history and used by allocation strategies from now on.

        Parameters
        ----------
        instance_type
            The type.
        usd
            US dollars an hour.
        zone
            Where; unset, in every zone.
        """
        return self._switched(
            "set_spot_price", instance_type=instance_type, usd=str(usd), zone=zone or "*"
        )

    def interrupt_spot(self, instance_id: str, notice_seconds: float = 120.0) -> None:
        """Interrupt a spot instance: its metadata has the notice at once, it ends at the deadline,
        and its group replaces it.

        Parameters
        ----------
        instance_id
            A running spot instance.
        notice_seconds
            The time until it ends.

        Raises
        ------
        SimulatorError
            There is no such spot instance.
        """
        self._turn("interrupt_spot", {"instance_id": instance_id, "notice_seconds": notice_seconds})

    def recommend_rebalance(self, instance_id: str) -> None:
        """Show a rebalance recommendation in a spot instance's metadata; no interruption need
        follow.

        Parameters
        ----------
        instance_id
            A running spot instance.

        Raises
        ------
        SimulatorError
            There is no such spot instance.
        """
        self._turn("recommend_rebalance", {"instance_id": instance_id})

    def throttle(self, factor: float = 1.0) -> Switched:
        """Throttle calls of EC2 and Auto Scaling, and those that read logs, by token buckets of
        AWS's sizes, all full now.

        Parameters
        ----------
        factor
            Factor of sizes and rates; 0 ends throttling.
        """
        return self._switched("throttle", factor=factor)

    def contend_groups(self, share: float = 0.2, *, seed: int = 0) -> Switched:
        """Refuse calls that change Auto Scaling groups with ``ResourceContention``.

        Parameters
        ----------
        share
            The share of calls, from 0 to 1; 0 ends it.
        seed
            The same seed refuses the same calls.
        """
        return self._switched("contend_groups", share=share, seed=seed)

    def delay_identities(self, seconds: float = 10.0, *, seed: int = 0) -> Switched:
        """Refuse calls that name a new role or instance profile, as long as other services don't
        know it.

        Parameters
        ----------
        seconds
            The longest time; each identity's is drawn at random. 0 ends it.
        seed
            The same seed draws the same times for the same names.
        """
        return self._switched("delay_identities", seconds=seconds, seed=seed)

    def delay_launches(self, factor: float = 1.0, *, seed: int = 0) -> Switched:
        """Delay launches and boots as on EC2: instances are pending first, and boot some time after
        they run.

        Parameters
        ----------
        factor
            Factor of the published times, 5 to 18 and 3 to 23 seconds; 0 ends delays.
        seed
            The same seed draws the same times in the same order.
        """
        return self._switched("delay_launches", factor=factor, seed=seed)

    def cancel_launches(
        self, reason: str = "Client.VolumeLimitExceeded: Volume limit exceeded"
    ) -> Switched:
        """End instances that are launched from now on before they run: ``Cancelled`` activities.

        Parameters
        ----------
        reason
            EC2's code and text; empty ends it.
        """
        return self._switched("cancel_launches", reason=reason)

    def linger_terminating(self, seconds: float = 120.0) -> Switched:
        """Make instances shut down for half of this time, listed by groups for all of it. 0
        switches it off and completes pending terminations.
        """
        return self._switched("linger_terminating", seconds=seconds)

    def hollow_hosts(self, on: bool = True) -> Switched:
        """Simulate workers' instances from now on: Dask workers that join as their instances, a
        hundred in a process. Groups with a warm pool get machines.

        Parameters
        ----------
        on
            False boots machines again. Started hosts stay as they are.
        """
        return self._switched("hollow_hosts", on=on)

    def hide_instances(self, seconds: float = 60.0, *, seed: int = 0) -> Switched:
        """Hide instances that are launched from now on from descriptions for a while, and refuse
        EC2 calls that name them.

        Parameters
        ----------
        seconds
            The longest time; each instance's is drawn at random. 0 shows all.
        seed
            The same seed draws the same times in the same order.
        """
        return self._switched("hide_instances", seconds=seconds, seed=seed)

    def hide_resources(self, seconds: float = 5.0, *, seed: int = 0) -> Switched:
        """Answer "not found" to EC2 calls that name a VPC, subnet, security group, route table,
        gateway, endpoint or launch template that is created from now on.

        Parameters
        ----------
        seconds
            The longest time; each resource's is drawn at random. 0 ends it.
        seed
            The same seed draws the same times in the same order.
        """
        return self._switched("hide_resources", seconds=seconds, seed=seed)

    def linger_secrets(self, seconds: float = 30.0) -> Switched:
        """Refuse to create a secret with the name of one that was deleted this many seconds ago, or
        less; 0 ends it.
        """
        return self._switched("linger_secrets", seconds=seconds)

    def hide_objects(
        self, share: float = 0.2, *, seconds: float = 900.0, seed: int = 0
    ) -> Switched:
        """Answer 404 to reads of objects in newly versioned buckets.

        Parameters
        ----------
        share
            The share of reads, from 0 to 1; 0 ends it.
        seconds, seed
            The time after versioning was first enabled; the same seed hides the same objects.
        """
        return self._switched("hide_objects", share=share, seconds=seconds, seed=seed)

    def unsettle_buckets(
        self, share: float = 0.5, *, seconds: float = 60.0, seed: int = 0
    ) -> Switched:
        """Answer ``NoSuchBucket`` or ``OperationAborted`` to calls to new buckets, and
        ``OperationAborted`` to the creation of a bucket that was just deleted.

        Parameters
        ----------
        share
            The share of calls, from 0 to 1; 0 ends it.
        seconds, seed
            The time after a bucket's creation or deletion; the same seed fails the same calls.
        """
        return self._switched("unsettle_buckets", share=share, seconds=seconds, seed=seed)

    def give_bucket(self, bucket: str, account: str = "210987654321") -> Switched:
        """Assign a bucket to another account, which gives this one access; an empty one ends it."""
        return self._switched("give_bucket", bucket=bucket, account=account)

    def delay_logs(self, seconds: float = 10.0) -> Switched:
        """Delay reading of log events after their ingestion by seconds; 0 ends it."""
        return self._switched("delay_logs", seconds=seconds)

    def drop_answers(
        self, action: str = "*", *, share: float = 1.0, times: int = 0, seed: int = 0
    ) -> Switched:
        """Serve calls, and close their connections instead of responding.

        Parameters
        ----------
        action
            Such as ``autoscaling:SetDesiredCapacity``, or a pattern.
        share
            The share of these calls without a response, from 0 to 1; 0 ends it.
        times
            The maximum number; 0 for any.
        seed
            The same seed and calls lose the same responses.
        """
        return self._switched("drop_answers", action=action, share=share, times=times, seed=seed)

    def later_values(self, value: str, later: str, *, action: str = "*") -> Switched:
        """Answer with a value that AWS doesn't have yet.

        Parameters
        ----------
        value
            The value that it takes the place of, such as ``InService``; an empty one ends it.
        later
            Such as ``Resting``.
        action
            Such as ``autoscaling:DescribeAutoScalingGroups``, or a pattern.
        """
        return self._switched("later_values", value=value, later=later, action=action)

    def expire_credentials(self, access_key: str) -> Switched:
        """Expire temporary credentials: every call with them is refused.

        Parameters
        ----------
        access_key
            Their access key, such as one from `environ_of`.
        """
        return self._switched("expire_credentials", access_key=access_key)

    def skew_clock(self, seconds: float, *, refusing: bool = True) -> Switched:
        """Set AWS's clock ahead of all others; beyond 15 minutes their signatures are refused.

        Parameters
        ----------
        seconds
            The difference; negative: behind. 0 ends it.
        refusing
            False: nothing is refused; instances have run longer by this time, and dates are later.
        """
        return self._switched("skew_clock", seconds=seconds, refusing=refusing)

    def cut_network(self, instance_id: str, seconds: float = 60.0) -> Switched:
        """Break every connection through an instance's public address, and refuse new ones.

        Parameters
        ----------
        instance_id
            The instance.
        seconds
            The duration; 0 restores the network.
        """
        return self._switched("cut_network", instance_id=instance_id, seconds=seconds)

    def break_environments(self, on: bool = True) -> Switched:
        """Break the user's Python of hosts that start from now on: machines fail, simulated workers
        boot and never join.

        Parameters
        ----------
        on
            False gives working environments again.
        """
        return self._switched("break_environments", on=on)

    def build_environments(self, on: bool = True, *, index_url: str = "") -> Switched:
        """Make hosts that start from now on build their own environments, as on AWS.

        Parameters
        ----------
        on
            False runs them in this program's environment again.
        index_url
            The package index that uv uses. Empty: the one in its local variables.
        """
        return self._switched("build_environments", on=on, index_url=index_url)

    def fill_disk(self, instance_id: str) -> None:
        """Fill a machine's disk: its processes can't write files beyond 1 MiB.

        Parameters
        ----------
        instance_id
            The instance of a running machine; any other raises `SimulatorError`.
        """
        self._turn("fill_disk", {"instance_id": instance_id})

    def time_hosts(self, **seconds: float) -> Switched:
        """Set time constants of hosts that start from now on, so that tests wait less than on AWS.

        Parameters
        ----------
        **seconds
            By the names in ``terradask_host.timing.Timing``; without any, the host program's
            defaults apply again.
        """
        return self._switched("time_hosts", **seconds)

    def switches(self) -> dict[str, Any]:
        """Return the state of the switches by name."""
        return dict(request_control(self.info, "GET", "switches"))

    def turn(self, name: str, **arguments: Any) -> None:
        """Turn a switch by its name, for the command line.

        Parameters
        ----------
        name
            The method's name.
        arguments
            The method's parameters.

        Raises
        ------
        SimulatorError
            There is no such switch, or its parameters differ.
        """
        known = [one for one in vars(Switches) if one[0] != "_" and one not in ("switches", "turn")]
        if name not in known:
            raise SimulatorError("There is no such switch", given=name, allowed=", ".join(known))
        method: Callable[..., object] = getattr(self, name)
        signature = inspect.signature(method)
        try:
            signature.bind(**arguments)
        except TypeError as error:
            raise SimulatorError(
                f"{name} doesn't take that: {error}",
                given=arguments,
                allowed=", ".join(signature.parameters),
            ) from error
        method(**arguments)

    def _switched(self, name: str, **arguments: Any) -> Switched:
        back, given = self._turn(name, arguments)
        return Switched(lambda: self._turn(back, given))

    def _turn(self, name: str, arguments: dict[str, Any]) -> Any:
        return request_control(self.info, "POST", f"switches/{name}", arguments)["undo"]
