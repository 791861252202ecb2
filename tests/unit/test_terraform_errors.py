"""Terraform's own words, as 1.11.4 printed them, and the errors that come of them."""

from __future__ import annotations

import datetime
import json
import socket
from getpass import getuser

import pytest

from terradask._terraform.errors import error_of, needs_init
from terradask._terraform.events import parse_event
from terradask._terraform.program import OPENTOFU, PROGRAMS, Program
from terradask._terraform.state.lock import left_by_killed
from terradask.errors import (
    AccessDenied,
    AwsError,
    BackendMissing,
    Diagnostic,
    InvalidCredentials,
    NoCredentials,
    ProviderUnavailable,
    StalePlan,
    StateLocked,
    TerraformError,
)

LOCKED = (
    "Error message: operation error S3: PutObject, https response error StatusCode: 412, "
    "RequestID: x, HostID: y, api error "
    "PreconditionFailed: At least one of the pre-conditions you specified did not hold\nLock "
    "Info:\n"
    "  ID:        bc754eb2-24a9-4e74-ead1-975bed709f14\n  Path:      "
    "bucket/clusters/etl/terraform.tfstate\n"
    "  Operation: OperationTypeApply\n  Who:       {who}\n  Version:   1.11.4\n"
    "  Created:   2026-11-20 05:18:52.01805903 +0000 UTC\n  Info:      \n\n\n"
    "Terraform acquires a state lock to protect the state from being written\nby multiple users "
    "at the same time."
)
REGISTRY = (
    "Could not retrieve the list of available versions for provider hashicorp/aws: could not "
    "connect to registry.terraform.io: failed to "
    'request discovery document: Get "https://registry.terraform.io/.well-known/terraform.json": '
    "dial tcp: lookup registry.terraform.io: "
    "no such host\n\nTo see which modules are currently depending on hashicorp/aws"
)
CHECKSUM = (
    "Error while installing hashicorp/aws v5.100.0: the local package for "
    "registry.terraform.io/hashicorp/aws 5.100.0 doesn't match any of "
    "the checksums previously recorded in the dependency lock file (this might be because the "
    "available checksums are for packages "
    "targeting different platforms); for more information: "
    "https://developer.hashicorp.com/terraform"
)
OTHER_VERSION = (
    "Could not retrieve the list of available versions for provider hashicorp/aws: locked "
    "provider registry.terraform.io/hashicorp/aws "
    "5.99.0 does not match configured version constraint 5.100.0; must use terraform init "
    "-upgrade to allow selection of new versions"
)
NO_BUCKET = (
    'Failed to get existing workspaces: S3 bucket "terradask-default-123456789012-us-east-1" does '
    "not exist.\n\nThe referenced S3 bucket "
    "must have been previously created."
)
NO_CREDENTIALS = (
    "Please see https://registry.terraform.io/providers/hashicorp/aws\nfor more information about "
    "providing credentials.\n\nError: failed "
    "to refresh cached credentials, no EC2 IMDS role found, operation error ec2imds: GetMetadata, "
    "access disabled"
)
DENIED = (
    "operation error EC2: CreateVpc, https response error StatusCode: 403, RequestID: x, api "
    "error UnauthorizedOperation: You are not "
    "authorized to perform this operation. User: arn:aws:iam::1:user/a is not authorized to "
    "perform: ec2:CreateVpc on resource: x"
)
DENIED_WITHOUT_NAME = (
    "operation error Auto Scaling: CreateAutoScalingGroup, api error AccessDenied: no"
)
EXPIRED = (
    "operation error STS: GetCallerIdentity, api error ExpiredToken: The security token "
    "included in the request is expired"
)
SKEWED = (
    "operation error STS: GetCallerIdentity, api error SignatureDoesNotMatch: Signature expired: "
    "20261120T041852Z is now earlier than "
    "20261120T050352Z (20261120T051852Z - 15 min.)"
)
SKEWED_AT_S3 = (
    "operation error S3: PutObject, api error RequestTimeTooSkewed: The difference "
    "between the request time and the current"
)
INVALID = (
    "operation error STS: GetCallerIdentity, api error InvalidClientTokenId: The security "
    "token is invalid."
)


@pytest.mark.parametrize(
    ("summary", "detail", "expected"),
    [
        ("Error acquiring the state lock", LOCKED.format(who="ana@laptop"), StateLocked),
        ("Saved plan is stale", "The given plan file can no longer be applied", StalePlan),
        (
            "Saved plan does not match the given state",
            "The given plan file can not be applied",
            StalePlan,
        ),
        (
            "Failed to query available provider packages",
            REGISTRY,
            (ProviderUnavailable, "t answer"),
        ),
        ("Failed to install provider", CHECKSUM, (ProviderUnavailable, "differs from the lock")),
        (
            "Failed to query available provider packages",
            OTHER_VERSION,
            (ProviderUnavailable, "t get the"),
        ),
        (NO_BUCKET, "", BackendMissing),
        (
            "No valid credential sources found",
            NO_CREDENTIALS,
            (NoCredentials, "no AWS cred"),
        ),
        ("creating EC2 VPC", DENIED, AccessDenied),
        ("creating Auto Scaling Group", DENIED_WITHOUT_NAME, AccessDenied),
        ("Retrieving AWS account details", EXPIRED, (NoCredentials, "have expired")),
        ("Retrieving AWS account details", INVALID, InvalidCredentials),
        ("Retrieving AWS account details", SKEWED, (AwsError, "clock is wrong")),
        ("Failed to save state", SKEWED_AT_S3, (AwsError, "clock is wrong")),
        ("creating EC2 Subnet", "InvalidSubnet.Range: The CIDR is invalid", TerraformError),
    ],
)
def test_diagnostic_becomes_its_type(
    summary: str, detail: str, expected: type[Exception] | tuple[type[Exception], str]
):
    kind, said = expected if isinstance(expected, tuple) else (expected, "")
    found = Diagnostic("error", summary, detail)
    warning = Diagnostic("warning", "Saved plan is stale, or so")
    error = error_of(
        verb="apply", folder="/w/etl", exit_code=1, diagnostics=[warning, found], stderr=""
    )
    assert type(error) is kind
    assert str(error)
    assert said in str(error)


def test_locked_state_names_holder_time_and_the_way_out():
    detail = LOCKED.format(who="ana@laptop")
    diagnostics = [Diagnostic("error", "Error acquiring the state lock", detail)]
    error = error_of(verb="plan", folder="/w/etl", exit_code=1, diagnostics=diagnostics, stderr="")
    assert isinstance(error, StateLocked)
    assert (error.holder, error.operation) == ("ana@laptop", "OperationTypeApply")
    assert error.since is not None
    assert error.since.startswith("2026-11-20 05:18:52")
    assert (
        "(bc754eb2-24a9-4e74-ead1-975bed709f14) stays; to remove it: terradask unlock etl"
        in str(error)
    )
    assert "(apply)" in error.problem
    assert "ask them" in str(error)


def test_locked_by_this_machine_says_so():
    detail = LOCKED.format(who=f"{getuser()}@{socket.gethostname()}")
    diagnostics = [Diagnostic("error", "Error acquiring the state lock", detail)]
    error = error_of(verb="plan", folder="/w/etl", exit_code=1, diagnostics=diagnostics, stderr="")
    assert "this machine" in str(error)


HERE = f"{getuser()}@{socket.gethostname()}"
LOCKED_AT = datetime.datetime(2026, 11, 20, 5, 18, 52, tzinfo=datetime.UTC).timestamp()


@pytest.mark.parametrize(
    ("who", "killed", "stale"),
    [
        (HERE, {"started_at": LOCKED_AT - 2.5}, True),
        (HERE, {"started_at": LOCKED_AT + 0.5}, True),
        (HERE, None, False),
        (HERE, {"started_at": LOCKED_AT + 5}, False),
        (HERE, {"started_at": LOCKED_AT - 60}, False),
        ("ana@laptop", {"started_at": LOCKED_AT - 2.5}, False),
    ],
)
def test_only_the_lock_of_a_command_that_was_killed_here_is_stale(
    who: str, killed: dict[str, float] | None, stale: bool
):
    diagnostics = [Diagnostic("error", "Error acquiring the state lock", LOCKED.format(who=who))]
    error = error_of(verb="plan", folder="/w/etl", exit_code=1, diagnostics=diagnostics, stderr="")
    assert isinstance(error, StateLocked)
    assert (left_by_killed(error, killed) is not None) is stale


def test_unreachable_registry_names_the_remedy():
    diagnostics = [Diagnostic("error", "Failed to query available provider packages", REGISTRY)]
    error = error_of(verb="init", folder="/w", exit_code=1, diagnostics=diagnostics, stderr="")
    assert "terradask doctor --fix" in str(error)
    assert "no such host" in str(error)


@pytest.mark.parametrize("program", PROGRAMS)
def test_messages_name_the_program_and_its_registry(program: Program):
    common = {"verb": "init", "folder": "/w", "exit_code": 1, "stderr": "", "program": program}
    failed = error_of(diagnostics=[Diagnostic("error", "No", "no")], **common)
    assert failed.problem == f"{program.command} init failed: No: no"
    unreachable = f"could not connect to {program.registry}: no such host"
    error = error_of(diagnostics=[Diagnostic("error", "Failed", unreachable)], **common)
    assert error.problem.startswith(f"the {program.name} registry doesn't answer")
    assert f"this machine to reach {program.registry}" in str(error.advice)
    differs = "doesn't match any of the checksums previously recorded in the dependency lock file"
    error = error_of(diagnostics=[Diagnostic("error", "Failed", differs)], **common)
    assert program.provider in str(error.advice)


def test_opentofus_missing_bucket_is_known():
    # https://github.com/opentofu/opentofu/blob/v1.11/internal/backend/remote-state/s3/client.go
    detail = (
        "S3 bucket does not exist.\n\nThe referenced S3 bucket must have been previously created. "
        "If the S3 bucket\nwas created within the last minute, please wait for a minute or two and "
        "try\nagain.\n\nError: operation error S3: GetObject, https response error StatusCode: 404"
    )
    found = Diagnostic("error", "Error loading state", detail)
    error = error_of(
        verb="plan",
        folder="/w",
        exit_code=1,
        diagnostics=[found],
        stderr="",
        program=OPENTOFU,
    )
    assert isinstance(error, BackendMissing)
    assert "terradask apply network" in str(error)


def test_denied_action_is_named():
    for detail, action in (
        (DENIED, "ec2:CreateVpc"),
        (DENIED_WITHOUT_NAME, "autoscaling:CreateAutoScalingGroup"),
    ):
        error = error_of(
            verb="apply",
            folder="/w",
            exit_code=1,
            diagnostics=[Diagnostic("error", "x", detail)],
            stderr="",
        )
        assert isinstance(error, AccessDenied)
        assert error.action == action
        assert isinstance(error.__cause__, TerraformError)


def test_text_errors_are_read_where_there_is_no_diagnostic():
    stderr = "╷\n│ Error: Failed to load state\n│ \n│ it is broken\n╵\n"
    error = error_of(verb="state pull", folder="/w", exit_code=1, diagnostics=[], stderr=stderr)
    assert error.problem == "terraform state pull failed: Failed to load state: it is broken"


def test_silence_and_signals_are_told():
    silent = error_of(verb="plan", folder="/w", exit_code=3, diagnostics=[], stderr="")
    killed = error_of(verb="plan", folder="/w", exit_code=-9, diagnostics=[], stderr="")
    assert "exit code 3" in str(silent)
    assert "signal 9" in str(killed)


def test_many_errors_are_shortened():
    many = [Diagnostic("error", f"e{i}", address=f"aws_vpc.v{i}") for i in range(9)]
    text = str(error_of(verb="plan", folder="/w", exit_code=1, diagnostics=many, stderr=""))
    assert "e2 (aws_vpc.v2)" in text
    assert "e3" not in text
    assert "and 6 more" in text


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ("Required plugins are not installed", True),
        ("Inconsistent dependency lock file", True),
        ('Backend initialization required, please run "terraform init"', True),
        ("Saved plan is stale", False),
    ],
)
def test_what_init_helps_against(summary: str, expected: bool):
    assert needs_init(TerraformError("x", diagnostics=[Diagnostic("error", summary)])) is expected


def test_events_are_read_and_other_lines_are_not():
    line = json.dumps(
        {
            "@level": "info",
            "@message": "aws_vpc.main: Creation complete after 12s",
            "type": "apply_complete",
            "hook": {
                "resource": {"addr": "aws_vpc.main"},
                "action": "create",
                "elapsed_seconds": 12,
            },
        }
    )
    event = parse_event(line)
    assert event is not None
    assert (event.type, event.address, event.action, event.elapsed_seconds) == (
        "apply_complete",
        "aws_vpc.main",
        "create",
        12,
    )
    for other in (
        "",
        "\x1b[0m\x1b[32m",
        "{",
        "[]",
        '{"no": "type"}',
        'Successfully configured the backend "s3"!',
    ):
        assert parse_event(other) is None


def test_an_object_that_s3_misses_is_told_from_one_that_is_gone() -> None:
    text = "reading S3 Object (clusters/etl/cluster.json): couldn't find resource"
    found = Diagnostic("error", text, "", address="aws_s3_object.descriptor")
    error = error_of(verb="apply", folder="etl", exit_code=1, diagnostics=[found], stderr="")
    assert "15 minutes" in str(error.advice)
    assert "clusters/etl/cluster.json" in str(error.given)


def test_a_zone_without_nat_gateways_is_named() -> None:
    text = (
        "creating EC2 NAT Gateway: operation error EC2: CreateNatGateway, https response error "
        "StatusCode: 400, RequestID: 83a3257b, api error NotAvailableInZone: Nat Gateway is not "
        "available in this availability zone"
    )
    found = Diagnostic("error", text, "", address="aws_nat_gateway.nat-ap-northeast-1a")
    error = error_of(verb="apply", folder="network", exit_code=1, diagnostics=[found], stderr="")
    assert isinstance(error, TerraformError)
    assert error.problem == "AWS has no NAT gateways in zone ap-northeast-1a"
    assert "network.zones" in str(error.advice)
    assert "NotAvailableInZone" in str(error.given)
