"""Forward a port of an instance to this machine's loopback; reopen it when its session is lost."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import subprocess
import sys
import threading
import time
from collections import deque
from typing import Any

from terradask._aws.session import Aws
from terradask._aws.ssm import guard
from terradask._aws.ssm.plugin import RESPONSE_VARIABLE, Plugin
from terradask.errors import SchedulerUnreachable
from terradask_modules.names import SESSION_DOCUMENT

logger = logging.getLogger("terradask")

_OPENED = re.compile(r"Port (\d+) opened for sessionId")
_LINES_KEPT = 10
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 30.0
#: After a session that lasted this long, the next one is opened at once.
_HELD_SECONDS = 60.0
_END_SECONDS = 5.0


class PortForwarding:
    """A port of an instance, forwarded by a plugin process until closed.

    Permissions needed: ``ssm:StartSession`` on the instance and on the document
    ``AWS-StartPortForwardingSession``; ``ssm:TerminateSession`` and ``ssm:ResumeSession`` on one's
    own sessions. Creates a session, which ends with this process.
    """

    def __init__(self, aws: Aws, plugin: Plugin, *, instance_id: str, port: int) -> None:
        self._aws = aws
        self._plugin = plugin
        self._instance_id = instance_id
        self._port = port
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._process: subprocess.Popen[str] | None = None
        self._session_id: str | None = None
        self._error: Exception | None = None
        self._first = threading.Event()
        self._closing = threading.Event()
        self._changing = threading.Lock()
        self._keeper = threading.Thread(
            target=self._keep, name=f"terradask-session-{port}", daemon=True
        )
        #: Port on 127.0.0.1 once open; the same in every session.
        self.local_port: int | None = None

    def open(self) -> None:
        """Start; `wait` returns the port, or raises."""
        self._keeper.start()

    def wait(self, seconds: float) -> int:
        """Return the local port once it is open. Raises `SchedulerUnreachable`."""
        if not self._first.wait(seconds):
            raise self._failed(f"was not open within {seconds:.0f} s")
        if self._error is not None:
            raise self._error
        assert self.local_port is not None
        return self.local_port

    def close(self) -> None:
        """End the session and its process. A second call does nothing."""
        with self._changing:
            self._closing.set()
            process = self._process
            if self.local_port is None and self._error is None:
                self._error = self._failed("was closed before it was open")
        self._first.set()
        if process is not None:
            _let_go(process)
        if self._keeper.is_alive():
            self._keeper.join(_END_SECONDS)
        if self._session_id is not None:
            # The plugin ends the session at SIGINT; without a network it never gets an answer.
            threading.Thread(
                target=self._end_session, name="terradask-session-end", daemon=True
            ).start()

    def _keep(self) -> None:
        pause_seconds = _FIRST_PAUSE_SECONDS
        while not self._closing.is_set():
            started = time.monotonic()
            try:
                self._forward()
            except Exception as error:
                if self._gave_up(error):
                    return
                logger.debug(
                    "no session to port %s of %s", self._port, self._instance_id, exc_info=True
                )
            else:
                if self._gave_up(self._failed("was not opened")):
                    return
            if time.monotonic() - started > _HELD_SECONDS:
                pause_seconds = _FIRST_PAUSE_SECONDS
            self._closing.wait(pause_seconds)
            pause_seconds = min(pause_seconds * 2, _LONGEST_PAUSE_SECONDS)

    def _gave_up(self, error: Exception) -> bool:
        """Return whether it never opened: only an opened session is reopened."""
        if self._closing.is_set() or self.local_port is not None:
            return False
        self._error = error
        self._first.set()
        return True

    def _forward(self) -> None:
        """Open a session and return when it ends."""
        request = {
            "Target": self._instance_id,
            "DocumentName": SESSION_DOCUMENT,
            "Parameters": self._parameters(),
        }
        process = self._start(request)
        assert process.stdout is not None
        try:
            for line in process.stdout:
                self._lines.append(line.strip())
                if opened := _OPENED.search(line):
                    if self.local_port is not None:
                        logger.info(
                            "the session to port %s of %s is open again",
                            self._port,
                            self._instance_id,
                        )
                    self.local_port = int(opened[1])
                    self._first.set()
        finally:
            _let_go(process)
            process.wait()
            process.stdout.close()

    def _parameters(self) -> dict[str, list[str]]:
        # The plugin picks a free port, and keeps it for connected clients.
        again = {} if self.local_port is None else {"localPortNumber": [str(self.local_port)]}
        return {"portNumber": [str(self._port)], **again}

    def _start(self, request: dict[str, Any]) -> subprocess.Popen[str]:
        client = self._aws.client("ssm")
        answer = self._request(client, request)
        response = json.dumps(
            {name: answer[name] for name in ("SessionId", "TokenValue", "StreamUrl")}
        )
        # A role's credentials end; then a new session is opened.
        environ = self._aws.variables()
        command = self._plugin.command(
            request,
            region=self._aws.region,
            profile=environ.get("AWS_PROFILE"),
            endpoint_url=str(client.meta.endpoint_url),
        )
        with self._changing:
            self._session_id = str(answer["SessionId"])
            if self._closing.is_set():
                self._end_session()
                raise self._failed("is no longer needed")
            # A process session or console of its own: Ctrl-C at the terminal goes only to the
            # client.
            process = self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(guard.__file__)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
                creationflags=guard.OWN_CONSOLE,
            )
        assert process.stdin is not None
        # If the guard has ended already, its output shows the reason.
        with contextlib.suppress(OSError, ValueError):
            process.stdin.write(
                json.dumps(
                    {"command": command, "environ": {**environ, RESPONSE_VARIABLE: response}}
                )
                + "\n"
            )
            process.stdin.flush()
        return process

    def _end_session(self) -> None:
        session_id, self._session_id = self._session_id, None
        with contextlib.suppress(Exception):
            self._aws.client("ssm").terminate_session(SessionId=session_id)

    def _request(self, client: Any, request: dict[str, Any]) -> Any:
        from botocore.exceptions import ClientError

        try:
            return client.start_session(**request)
        except ClientError as error:
            detail = error.response["Error"]
            if detail["Code"] == "TargetNotConnected":
                raise self._failed(
                    "was refused: Session Manager has no agent on the host, or it isn't "
                    "connected yet"
                ) from error
            raise self._failed(
                f"was refused: {detail['Code']}: {detail.get('Message', '')}"
            ) from error

    def _failed(self, what: str) -> SchedulerUnreachable:
        lines = "; ".join(line for line in list(self._lines) if line)
        return SchedulerUnreachable(
            f"The session to port {self._port} of instance {self._instance_id} {what}.",
            address=f"{self._instance_id}:{self._port}",
            given=lines or None,
            advice="the network needs session_manager = true when the host starts, an image with "
            "Amazon's SSM Agent, and a way to ssm and "
            "ssmmessages; the caller needs ssm:StartSession (terradask iam user)",
        )


def _let_go(process: subprocess.Popen[str]) -> None:
    """Signal the guard that the client is finished."""
    with contextlib.suppress(OSError, ValueError):
        if process.stdin is not None:
            process.stdin.close()
