"""An instance is ended at most once where an answer is lost, or a throttled call was overtaken: AWS
would lower its group's number again.
"""

from __future__ import annotations

import time

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from terradask_host.agent.event_queue import Stop, StopRequested
from terradask_host.agent.groups import ClusterGroups
from terradask_host.end_once import end_once
from terradask_host.structure import GroupEntry, Structure

NAME = "terradask-default-etl-workers"
#: Codes of refusals that change nothing, and their HTTP status.
REFUSALS = {"Throttling": [400], "ResourceContention": [500], "ScalingActivityInProgress": [400]}
TAGS = "".join(
    f"<member><Key>terradask:{key}</Key><Value>{value}</Value></member>"
    for key, value in (("workspace", "default"), ("cluster", "etl"))
)


class LosesAnswers:
    """An AWS that ends an instance, lowers the number with each call, and loses the first answer,
    or fails another way first: a code refuses the first call.
    """

    def __init__(self, first: Exception | int | str) -> None:
        self.first: Exception | int | str | None = first
        self.calls, self.desired, self.state = 0, 3, "InService"

    def client(self, _: str):
        made = boto3.client(
            "autoscaling",
            region_name="us-east-1",
            aws_access_key_id="a",
            aws_secret_access_key="b",
            config=Config(retries={"mode": "standard", "max_attempts": 4}),
        )
        made.meta.events.register("before-send.auto-scaling", self._answer)
        return end_once(made)

    def _answer(self, request, **_):
        body = str(request.body)
        if "Action=Describe" in body:
            member = f"<InstanceId>i-1</InstanceId><LifecycleState>{self.state}</LifecycleState>"
            return self._response(
                200,
                "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult>"
                f"<AutoScalingGroups><member><AutoScalingGroupName>{NAME}</AutoScalingGroupName>"
                f"<Tags>{TAGS}</Tags><DesiredCapacity>{self.desired}</DesiredCapacity>"
                f"<MaxSize>9</MaxSize><Instances><member>{member}</member></Instances>"
                "</member></AutoScalingGroups></DescribeAutoScalingGroupsResult>"
                "</DescribeAutoScalingGroupsResponse>",
            )
        self.calls += 1
        first, self.first = self.first, None
        if isinstance(first, str):
            return self._error(*REFUSALS[first], first)
        self.desired, self.state = self.desired - 1, "Terminating"
        if isinstance(first, Exception):
            raise first
        if first:
            return self._error(first, "InternalFailure")
        call = "TerminateInstanceInAutoScalingGroup"
        return self._response(200, f"<{call}Response><{call}Result/></{call}Response>")

    def _error(self, status, code):
        return self._response(
            status, f"<ErrorResponse><Error><Code>{code}</Code></Error></ErrorResponse>"
        )

    def _response(self, status, text):
        class Raw:
            def stream(self, *_, **__):
                yield text.encode()

        return AWSResponse("https://aws", status, {}, Raw())


@pytest.mark.parametrize("first", [ConnectionClosedError(endpoint_url="https://aws"), 500])
def test_a_lost_end_is_looked_up_and_not_repeated(first, pauses):
    aws = LosesAnswers(first)
    client = aws.client("autoscaling")
    with pytest.raises((ConnectionClosedError, ClientError)):
        client.terminate_instance_in_auto_scaling_group(
            InstanceId="i-1", ShouldDecrementDesiredCapacity=True
        )
    assert (aws.calls, aws.desired) == (1, 2)


@pytest.fixture
def pauses(monkeypatch):
    taken = []
    monkeypatch.setattr(time, "sleep", taken.append)
    return taken


def scheduler_ends(aws) -> None:
    host_groups(aws).end("i-1", replaced=False)


def host_leaves(aws) -> None:
    assert host_groups(aws).leave("i-1")


def host_groups(aws, is_member=lambda: None) -> ClusterGroups:
    entry = GroupEntry(autoscaling_group=NAME, role="worker", max_size=9)
    return ClusterGroups(aws, Structure(groups={"workers": entry}), print, is_member)


@pytest.mark.parametrize("code", ["Throttling", "ResourceContention"])
@pytest.mark.parametrize("end", [scheduler_ends, host_leaves])
def test_an_end_that_is_refused_for_now_is_repeated(end, code, pauses):
    aws = LosesAnswers(code)
    end(aws)
    assert (aws.calls, aws.desired, len(pauses)) == (2, 2, 1)


def test_a_throttled_end_is_not_repeated_once_another_process_has_ended_it(pauses):
    class EndsMeanwhile(LosesAnswers):
        """An AWS that throttles the first call, while the host leaves by itself."""

        def _answer(self, request, **_):
            answer = super()._answer(request)
            if self.calls:
                self.state = "Terminating"
            return answer

    aws = EndsMeanwhile("Throttling")
    scheduler_ends(aws)
    assert (aws.calls, aws.desired) == (1, 3)


def test_a_host_leaves_while_another_activity_is_in_progress(pauses):
    aws = LosesAnswers("ScalingActivityInProgress")
    host_leaves(aws)
    assert (aws.calls, aws.desired) == (2, 2)


def test_a_host_that_is_refused_for_half_a_minute_leaves_with_decrement(pauses):
    class Contends(LosesAnswers):
        """An AWS with another pending update of the group for some calls."""

        def _answer(self, request, **_):
            self.first = "ResourceContention" if self.calls < 4 else None
            return super()._answer(request)

    aws = Contends("ResourceContention")
    host_leaves(aws)
    assert (aws.calls, aws.desired) == (5, 2)


class FailsBefore(LosesAnswers):
    """An AWS whose first answer is an internal error, without having ended the instance."""

    def _answer(self, request, **_):
        if self.first is None:
            return super()._answer(request)
        self.calls, self.first = self.calls + 1, None
        return self._error(503, "ServiceUnavailable")


LOST = ConnectionClosedError(endpoint_url="https://aws")


@pytest.mark.parametrize(
    ("aws", "calls"), [(FailsBefore(503), 2), (LosesAnswers(500), 1), (LosesAnswers(LOST), 1)]
)
def test_a_host_that_knows_no_outcome_leaves_once_as_long_as_it_is_a_member(aws, calls, pauses):
    groups = host_groups(aws, lambda: aws.state == "InService")
    assert groups.leave("i-1")
    assert (aws.calls, aws.desired, aws.state) == (calls, 2, "Terminating")


def test_a_host_that_knows_neither_outcome_nor_membership_leaves_no_second_time(pauses):
    aws = LosesAnswers(500)
    assert not host_groups(aws).leave("i-1")
    assert (aws.calls, aws.desired) == (1, 2)


def test_a_host_whose_throttled_leave_is_overtaken_does_not_repeat_it():
    def stop(_: float) -> None:
        raise StopRequested(Stop("terminated"))

    aws = LosesAnswers("Throttling")
    with pytest.raises(StopRequested):
        host_groups(aws).leave("i-1", pause=stop)
    assert aws.calls == 1


def test_an_end_that_is_throttled_for_ever_fails(pauses):
    class Throttles(LosesAnswers):
        """An AWS that throttles each call that ends an instance."""

        def _answer(self, request, **_):
            self.first = "Throttling"
            return super()._answer(request)

    aws = Throttles("Throttling")
    with pytest.raises(ClientError, match="Throttling"):
        scheduler_ends(aws)
    assert len(pauses) == 3
    assert 7 <= sum(pauses) <= 14


def test_an_end_that_leaves_the_number_is_repeated_by_botocore():
    aws = LosesAnswers("Throttling")
    aws.client("autoscaling").terminate_instance_in_auto_scaling_group(
        InstanceId="i-1", ShouldDecrementDesiredCapacity=False
    )
    assert aws.calls == 2
