"""The secrets that a run names by ARN, read with this host's role and kept in memory alone.

Permissions needed: ``secretsmanager:GetSecretValue`` or ``ssm:GetParameter`` on each, and
``kms:Decrypt`` on a customer's key that encrypts it.
"""

from __future__ import annotations

import contextlib
import json
import re
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from terradask_host.agent.aws import Aws, error_code, is_aws_error
from terradask_host.agent.retry import repeat
from terradask_host.documents import Run
from terradask_host.errors import SecretUnreadable
from terradask_host.preload.referenced_secrets import address_of
from terradask_host.timing import Timing
from terradask_host.trouble import Trouble

#: AWS's codes for a missing right: on the secret, or on the key that encrypts it.
_DENIED = frozenset({"AccessDeniedException", "AccessDenied"})
_MISSING = frozenset({"ResourceNotFoundException", "ParameterNotFound"})
_UNDECIPHERABLE = frozenset({"DecryptionFailure", "InvalidKeyId"})
#: Its codes that no wait changes.
#: AWS (documented): Secrets Manager GetSecretValue fails with ResourceNotFoundException,
#: DecryptionFailure, or InvalidRequestException for a deleted secret; Parameter Store's
#: GetParameter with ParameterNotFound or InvalidKeyId.
#: https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html,
#: https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html
_FINAL = _MISSING | _UNDECIPHERABLE | {"InvalidRequestException"}
_READ = {"secretsmanager": "secretsmanager:GetSecretValue", "ssm": "ssm:GetParameter"}
_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+")


class Reference(NamedTuple):
    """The ARN of a secret or a parameter, with its parts, and the key of its JSON, if only that one
    is wanted.
    """

    arn: str
    #: ``aws``, ``aws-cn`` or ``aws-us-gov``.
    partition: str
    #: ``secretsmanager`` or ``ssm``.
    service: str
    #: Needn't be the host's.
    region: str
    account: str
    key: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a reference as settings have checked it."""
        parts = text.split(":", 7)
        return cls(":".join(parts[:7]), *parts[1:5], *parts[7:])


class ReferencedSecrets:
    """Reads a run's secrets again and again: each process gets the values of its start.

    Parameters
    ----------
    references
        Environment variable -> reference.
    role
        ARN of this host's role.
    """

    def __init__(
        self,
        references: Mapping[str, str],
        aws: Aws,
        *,
        role: str,
        timing: Timing,
        log: Callable[[str], None],
    ) -> None:
        self._references = {name: Reference.parse(text) for name, text in references.items()}
        self._aws = aws
        self._role = role
        self._timing = timing
        self._trouble = Trouble(log)
        self._lock = threading.Lock()
        self._values: Mapping[str, str] | None = None
        self._read_at = 0.0

    @classmethod
    def of_run(
        cls, run: Run, role: str, aws: Aws, timing: Timing, log: Callable[[str], None]
    ) -> Self:
        """Return those of a run, for a host of a role such as ``worker``."""
        return cls(run.secrets, aws, role=run.host_roles[role][-1], timing=timing, log=log)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._references)

    def read(self, pause: Callable[[float], object] = time.sleep) -> Mapping[str, str]:
        """Return the current values by variable; processes that start together share them.

        The first time, an answer of AWS's that may be a matter of seconds is waited for: a right
        that was just granted, throttling. Later, while AWS doesn't answer, the values that were
        read before are the current ones. Raises `SecretUnreadable`.
        """
        with self._lock:
            fresh = time.monotonic() - self._read_at < self._timing.secret_fresh_seconds
            if self._values is not None and fresh:
                return self._values
            try:
                self._values = self._read_all(pause)
                self._trouble.is_over()
            except SecretUnreadable as error:
                cause = error.__cause__
                if self._values is None or not isinstance(cause, Exception):
                    raise
                if error_code(cause) in _FINAL | _DENIED:
                    raise
                self._trouble.note(f"new processes get the values that were read before: {error}")
            self._read_at = time.monotonic()
            return self._values

    def _read_all(self, pause: Callable[[float], object]) -> Mapping[str, str]:
        texts: dict[str, str] = {}
        values = {}
        for name, reference in self._references.items():
            if reference.arn not in texts:
                texts[reference.arn] = self._read_one(name, reference, pause)
            values[name] = _value(name, reference, texts[reference.arn])
        return values

    def _read_one(self, name: str, reference: Reference, pause: Callable[[float], object]) -> str:
        partition = self._role.split(":")[1]
        if reference.partition != partition:
            raise _unreadable(
                name,
                reference,
                f"it is in the partition {reference.partition}, which nothing here can reach",
                allowed=f"a secret of the partition {partition}",
                advice="Copy it to this partition, and name the copy.",
            )
        try:
            return repeat(
                lambda: self._ask(name, reference),
                lambda error: is_aws_error(error) and error_code(error) not in _FINAL,
                self._timing.secret_deadline_seconds if self._values is None else 0.0,
                pause,
            )
        except Exception as error:
            if not is_aws_error(error):
                raise
            raise self._refusal(name, reference, error) from error

    def _ask(self, name: str, reference: Reference) -> str:
        client = self._aws.client(reference.service, reference.region)
        if reference.service == "ssm":
            found = client.get_parameter(Name=reference.arn, WithDecryption=True)
            return str(found["Parameter"]["Value"])
        text: str | None = client.get_secret_value(SecretId=reference.arn).get("SecretString")
        if text is None:
            raise _unreadable(
                name,
                reference,
                "it is binary",
                allowed="text",
                advice="Store it as text, such as base64: aws secretsmanager put-secret-value "
                "--secret-string",
            )
        return text

    def _refusal(self, name: str, reference: Reference, error: Exception) -> SecretUnreadable:
        """Return the error for an answer of AWS's, which never has the secret in it."""
        code, answer = error_code(error), str(error)
        if code in _DENIED:
            return self._denial(name, reference, answer)
        if code in _MISSING:
            why, advice = "it doesn't exist, or has no value", "Correct the ARN, or give it a value"
        # AWS (reported, secret-scheduled): Secrets Manager answers InvalidRequestException to
        # GetSecretValue of a secret that is scheduled for deletion: "… because it was marked for
        # deletion". https://github.com/external-secrets/external-secrets/pull/4562
        elif "marked for deletion" in answer:
            why = "it is marked for deletion"
            advice = f"aws secretsmanager restore-secret --secret-id {reference.arn}"
        elif code in _UNDECIPHERABLE:
            why, advice = "AWS can't decrypt it", "Enable the key that encrypts it, or restore it"
        elif hasattr(error, "response"):
            why, advice = f"AWS answers {code}", "Start the cluster again when that is over"
        else:
            why, advice = "AWS doesn't answer", self._way(reference)
        return _unreadable(name, reference, f"{why} ({answer})", advice=f"{advice}.")

    def _way(self, reference: Reference) -> str:
        service = reference.service
        elsewhere = "" if reference.region == self._aws.region else f" of {reference.region}"
        return (
            f"Hosts must reach {service}{elsewhere}: through a NAT gateway, or add it to "
            "network.interface_endpoints"
            + (", which lead only to the own region" if elsewhere else "")
        )

    def _denial(self, name: str, reference: Reference, answer: str) -> SecretUnreadable:
        """Return the error for a missing right, with the settings that grant it."""
        action, resource = _READ[reference.service], reference.arn
        # AWS (reported): Secrets Manager and Parameter Store answer AccessDeniedException also if
        # the right is missing on the KMS key, with "KMS" or "customer master key" in the text.
        # https://github.com/external-secrets/external-secrets/issues/390,
        # https://github.com/tryolabs/aws-workshop/issues/6
        if "kms" in answer.lower() or "customer master key" in answer:
            own = f"arn:{reference.partition}:kms:{reference.region}:{reference.account}:key/KEY"
            found = _KEY.search(answer)
            action, resource = "kms:Decrypt", found[0] if found else own
        lines = [
            "[[network.task_rights]]",
            f'reason = "secret {name}"',
            f'actions = ["{action}"]',
            f'resources = ["{resource}"]',
        ]
        if "explicit deny" in answer:
            advice = f"A policy denies it: ask who wrote it to except {self._role}."
        else:
            advice = "\n    ".join(
                ["Add these lines to terradask.toml, then: terradask apply network", *lines]
            )
        if reference.account != self._role.split(":")[4]:
            advice += (
                f"\n    It is of account {reference.account}: its own policy, and that of its key, "
                f"must also allow {self._role}."
            )
        return _unreadable(
            name, reference, f"this host's role may not read it ({answer})", advice=advice
        )


class RegistryLogin(ReferencedSecrets):
    """The username and the password for the registry of a run's container image."""

    @classmethod
    def of_run(
        cls, run: Run, role: str, aws: Aws, timing: Timing, log: Callable[[str], None]
    ) -> Self:
        """Return those of a run, as `ReferencedSecrets.of_run`."""
        arn = run.container_credentials
        keys = ("username", "password") if arn else ()
        references = {f"container_credentials ({key})": f"{arn}:{key}" for key in keys}
        return cls(references, aws, role=run.host_roles[role][-1], timing=timing, log=log)

    def username_and_password(self) -> tuple[str, str]:
        """Return the current ones. Raises `SecretUnreadable`."""
        username, password = self.read().values()
        return username, password


def _unreadable(
    name: str,
    reference: Reference,
    why: str,
    *,
    allowed: str | None = None,
    advice: str | None = None,
) -> SecretUnreadable:
    kind = "parameter" if reference.service == "ssm" else "secret"
    return SecretUnreadable(
        f"The {kind} for {name} can't be read: {why}.",
        given=reference.arn,
        allowed=allowed,
        advice=advice,
    )


def _value(name: str, reference: Reference, text: str) -> str:
    """Return what a variable gets of a secret's text. Errors show nothing of it."""
    value: Any = text
    if reference.key is not None:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or reference.key not in document:
            what = "it has no such key" if isinstance(document, dict) else "it is not a JSON object"
            raise _unreadable(
                name,
                reference,
                f"{what}: {reference.key!r}",
                allowed="a JSON object with this key, or the ARN without it for the whole text",
                advice="Correct what follows the ARN in secrets, or the secret.",
            )
        value = document[reference.key]
        # Numbers too are often stored in it, such as a port.
        value = value if isinstance(value, str) else json.dumps(value)
    if "\0" in value or not _encodes(value):
        raise _unreadable(
            name,
            reference,
            "an environment variable can't hold it",
            allowed="text without NUL that UTF-8 can encode",
            advice="Store it encoded, such as base64.",
        )
    return str(value)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# ---- the socket for the host's processes ---------------------------------------------------------


#: What a process asks: before it runs anything, when it gets nothing else to run without them; and
#: again, for a command that it starts.
AT_START = b"start\n"


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing about closed connections."""


class SecretSocket:
    """Gives a run's secrets to the host's own processes: answers each connection with the current
    values, on threads. Only its user can open it. `fail` is called when a process would start
    without them.

    So they are in no file, no command line, and no environment that a process starts with: `/proc`
    shows that one.
    """

    def __init__(
        self, path: Path, secrets: ReferencedSecrets, fail: Callable[[SecretUnreadable], None]
    ) -> None:
        self._path = path
        path.unlink(missing_ok=True)

        class Handler(socketserver.StreamRequestHandler):
            timeout = 10.0

            def handle(self) -> None:
                asked = self.rfile.readline(64)
                try:
                    answer: dict[str, object] = {"environ": dict(secrets.read())}
                except SecretUnreadable as error:
                    if asked == AT_START:
                        fail(error)
                    answer = {"problem": str(error)}
                with contextlib.suppress(OSError):
                    self.wfile.write(json.dumps(answer).encode())

        with address_of(str(path)) as address:
            self._server = _Server(address, Handler)
        path.chmod(0o600)
        threading.Thread(target=self._server.serve_forever, name="secrets", daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._path.unlink(missing_ok=True)
