"""What AWS, networks and hosts do now and then, on demand: from lack of capacity to a full disk;
and simulated workers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from decimal import Decimal
from types import TracebackType
from typing import Any, Literal

from terradask_simulator.errors import SimulatorError
from terradask_simulator.process import SimulatorInfo, request_control

__all__ = ["Switched", "Switches"]


class Switched:
    """A switch that was turned; as a context manager it turns it back at the end of the block.

    Parameters
    ----------
    undo
        Turns it back.
    """

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        """Leave the switch as it was turned."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Turn it back."""
        self._undo()


class Switches:
    """The switches of a running embedded AWS; every `Simulator` has them, whatever process started
    it.

    Parameters
    ----------
    info
        The embedded AWS, as ``terradask_simulator.lifecycle.status`` returns it.

    Notes
    -----
    Each acts at once, for the whole account. Most return a `Switched`: ``with
    simulator.no_capacity(): ...`` ends with the block, a plain call lasts until something turns it
    back. Those of hosts raise `SimulatorError` where nothing boots.
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
        """Let launches fail for want of capacity, in groups and from RunInstances.

        Parameters
        ----------
        instance_type
            Such as ``m7i.large`` or ``m7i.*``; unset, any.
        zone, market
            Where; unset, any.
        beyond
            How many instances all these pools have together; by default none.
        """
        return self._switched(
            "no_capacity",
            instance_type=instance_type or "*",
            zone=zone or "*",
            market=market or "*",
            beyond=beyond,
        )

    def allow_capacity(self) -> None:
        """Let launches succeed again, whatever `no_capacity` said."""
        self._turn("allow_capacity", {})

    def set_quota(self, quota_code: str, value: float, *, service_code: str = "ec2") -> Switched:
        """Change one of the account's quotas: Service Quotas answers so, and requests for no more
        than that are approved.

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
            No such quota is known here.
        """
        return self._switched(
            "set_quota", quota_code=quota_code, value=value, service_code=service_code
        )

    def enforce_quotas(self, on: bool = True) -> Switched:
        """Refuse launches beyond the quotas of vCPUs, those of a grown account where none was set:
        10,000 for standard instances.

        Parameters
        ----------
        on
            False lets everything launch again.
        """
        return self._switched("enforce_quotas", on=on)

    def refuse_account(
        self, state: Literal["free-plan", "unverified", "blocked", ""] = "free-plan"
    ) -> Switched:
        """Refuse launches as for an account on AWS's Free plan, whose types are few, or for one
        that may launch nothing: not verified yet, or blocked.

        Parameters
        ----------
        state
            Empty switches it off.
        """
        return self._switched("refuse_account", state=state)

    def set_spot_price(
        self, instance_type: str, usd: Decimal | float | str, zone: str | None = None
    ) -> Switched:
        """Change a spot price: the history shows it from now on, and allocation strategies go by
        it.

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
        """Take a spot instance back: its metadata says so at once, its end comes at the deadline,
        and its group replaces it.

        Parameters
        ----------
        instance_id
            A running spot instance.
        notice_seconds
            How long it has.

        Raises
        ------
        SimulatorError
            There is no such spot instance.
        """
        self._turn("interrupt_spot", {"instance_id": instance_id, "notice_seconds": notice_seconds})

    def recommend_rebalance(self, instance_id: str) -> None:
        """Let a spot instance's metadata say that it is at an elevated risk of interruption, which
        may never come.

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
            What sizes and rates are multiplied by; 0 ends throttling.
        """
        return self._switched("throttle", factor=factor)

    def delay_launches(self, factor: float = 1.0, *, seed: int = 0) -> Switched:
        """Let launches and boots take as long as on EC2: instances are pending first, and boot some
        time after they run.

        Parameters
        ----------
        factor
            What the published times, 5 to 18 and 3 to 23 seconds, are multiplied by; 0 ends delays.
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
        """Let instances shut down for half of this time; groups list them for all of it. 0 ends it,
        and what was ending.
        """
        return self._switched("linger_terminating", seconds=seconds)

    def hollow_hosts(self, on: bool = True) -> Switched:
        """Simulate workers' instances from now on: Dask workers that join as their instances, a
        hundred in a process.

        Parameters
        ----------
        on
            False gives machines again. Those that have begun stay what they are.
        """
        return self._switched("hollow_hosts", on=on)

    def hide_instances(self, seconds: float = 60.0, *, seed: int = 0) -> Switched:
        """Leave instances that are launched from now on out of descriptions for a while, and refuse
        calls of EC2 that name them.

        Parameters
        ----------
        seconds
            For how long at most; how long is drawn for each. 0 shows all.
        seed
            The same seed draws the same times in the same order.
        """
        return self._switched("hide_instances", seconds=seconds, seed=seed)

    def hide_objects(
        self, share: float = 0.2, *, seconds: float = 900.0, seed: int = 0
    ) -> Switched:
        """Answer 404 to readings of objects in buckets whose versioning is young.

        Parameters
        ----------
        share
            Of how many readings, from 0 to 1; 0 ends it.
        seconds, seed
            For how long after versioning was first enabled; the same seed misses the same objects.
        """
        return self._switched("hide_objects", share=share, seconds=seconds, seed=seed)

    def unsettle_buckets(
        self, share: float = 0.5, *, seconds: float = 60.0, seed: int = 0
    ) -> Switched:
        """Answer ``NoSuchBucket`` or ``OperationAborted`` to calls about the configuration of
        buckets that were just made.

        Parameters
        ----------
        share
            Of how many calls, from 0 to 1; 0 ends it.
        seconds, seed
            For how long after a bucket was made; the same seed fails the same calls.
        """
        return self._switched("unsettle_buckets", share=share, seconds=seconds, seed=seed)

    def give_bucket(self, bucket: str, account: str = "210987654321") -> Switched:
        """Let a bucket be another account's, which lets this one in; an empty one ends it."""
        return self._switched("give_bucket", bucket=bucket, account=account)

    def delay_logs(self, seconds: float = 10.0) -> Switched:
        """Let log events be read so many seconds after their ingestion; 0 ends it."""
        return self._switched("delay_logs", seconds=seconds)

    def drop_answers(
        self, action: str = "*", *, share: float = 1.0, times: int = 0, seed: int = 0
    ) -> Switched:
        """Serve calls, and cut their connections instead of answering.

        Parameters
        ----------
        action
            Such as ``autoscaling:SetDesiredCapacity``, or a pattern.
        share
            Of how many of these calls the answer is lost, from 0 to 1; 0 ends it.
        times
            How often at most; 0 for any number.
        seed
            The same seed and calls lose the same answers.
        """
        return self._switched("drop_answers", action=action, share=share, times=times, seed=seed)

    def expire_credentials(self, access_key: str) -> Switched:
        """Let temporary credentials expire: every call that they sign is refused.

        Parameters
        ----------
        access_key
            Their access key, such as what `environ_of` gives.
        """
        return self._switched("expire_credentials", access_key=access_key)

    def skew_clock(self, seconds: float, *, refusing: bool = True) -> Switched:
        """Let AWS's clock go ahead of all others; beyond 15 minutes it refuses what they sign.

        Parameters
        ----------
        seconds
            By how much; negative: behind. 0 ends it.
        refusing
            False: nothing is refused, and instances have run so much longer, dates are later.
        """
        return self._switched("skew_clock", seconds=seconds, refusing=refusing)

    def cut_network(self, instance_id: str, seconds: float = 60.0) -> Switched:
        """Break every connection through an instance's public address, and answer no new ones.

        Parameters
        ----------
        instance_id
            The instance.
        seconds
            For how long; 0 mends it.
        """
        return self._switched("cut_network", instance_id=instance_id, seconds=seconds)

    def break_environments(self, on: bool = True) -> Switched:
        """Let hosts that begin from now on have a user's Python without its packages: machines
        fail, simulated workers boot and never join.

        Parameters
        ----------
        on
            False gives whole environments again.
        """
        return self._switched("break_environments", on=on)

    def build_environments(self, on: bool = True, *, index_url: str = "") -> Switched:
        """Let hosts that begin from now on have environments of their own, as on AWS.

        Parameters
        ----------
        on
            False lets them run in this program's again.
        index_url
            The package index that uv asks. Empty: the one in its variables here.
        """
        return self._switched("build_environments", on=on, index_url=index_url)

    def fill_disk(self, instance_id: str) -> None:
        """Let a machine's disk be full: what runs on it writes no file beyond 1 MiB any more.

        Parameters
        ----------
        instance_id
            The instance of a machine that runs; another is a `SimulatorError`.
        """
        self._turn("fill_disk", {"instance_id": instance_id})

    def time_hosts(self, **seconds: float) -> Switched:
        """Give hosts that begin from now on other time constants, so that tests wait less than on
        AWS.

        Parameters
        ----------
        **seconds
            By the names in ``terradask_host.timing.Timing``; without any, all are the host
            program's own again.
        """
        return self._switched("time_hosts", **seconds)

    def switches(self) -> dict[str, Any]:
        """Return how the switches stand, by name."""
        return dict(request_control(self.info, "GET", "switches"))

    def turn(self, name: str, **arguments: Any) -> None:
        """Turn a switch by its name, for those who read it from a command line.

        Parameters
        ----------
        name
            The method.
        arguments
            Its parameters.

        Raises
        ------
        SimulatorError
            There is no such switch, or it takes something else.
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
        answer = request_control(self.info, "POST", f"switches/{name}", arguments)
        if "refused" in answer:
            fields = {key: answer["refused"].get(key) for key in ("given", "allowed", "advice")}
            raise SimulatorError(answer["refused"]["problem"], **fields)
        return answer["undo"]
