"""Attackers' random calls, an administrator's commands between them, and what must hold after each
step.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import pytest
from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from terradask.errors import TerradaskError
from terradask_simulator import Simulator

from ...simulator.acting import ACCOUNT, Account, host
from .administrator import Administrator, Command, foreign_calls
from .calls import Call, Caller
from .documents import Forger
from .foreign import FOREIGN_BUCKET, canary
from .reach import TAG_CLUSTER, TAG_WORKSPACE, Actor, forbidden
from .rights import Right, calls_of, rights_of
from .ruses import RUSES, TRICKED, Ruse, Target
from .snapshot import Change, Snapshot, changes, names_in
from .stage import Stage

ADMINISTRATOR = f"arn:aws:iam::{ACCOUNT}:role/administrator"
#: What AWS changes later than it was asked: by a group's number, or by schedule, which goes then.
_LIVELY = ("schedule", "number", "instance", "volume", "network-interface")
_KEY_MATERIAL = re.compile(r"<canary of [^>]+>|[A-Za-z0-9+/]{60,}")


@dataclass
class Attacker:
    """An actor with the credentials of a role, and every right of its policies."""

    actor: Actor
    arn: str
    rights: Sequence[Right]
    account: Account
    clients: dict[str, Any] = field(default_factory=dict)

    def send(self, call: Call) -> tuple[str, str]:
        """Make a call; return its outcome, and its answer as text."""
        service = call.api.service
        if service not in self.clients:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("AWS_MAX_ATTEMPTS", "1")
                self.clients[service] = self.account.client(service)
        try:
            answer = getattr(self.clients[service], xform_name(call.api.operation))(
                **call.parameters
            )
        except ClientError as error:
            return str(error.response["Error"]["Code"]), str(error)
        except BotoCoreError as error:
            return type(error).__name__, ""
        except ResponseParserError:
            return f"the embedded AWS fails at {call.api.operation}", ""
        body = answer["Body"].read() if "Body" in answer else b""
        return "done", f"{answer} {body.decode(errors='replace')}"


def caller(
    simulator: Simulator,
    clients: contextlib.ExitStack,
    actor: Actor,
    policies: Sequence[Mapping[str, Any]],
) -> Attacker:
    """Return a person, or a pipeline, with policies alone."""
    name = f"attacker-{actor.workspace}-{actor.role}"
    account = Account(simulator, simulator.environ_of(name, *policies), clients)
    return Attacker(actor, f"arn:aws:iam::{ACCOUNT}:role/{name}", rights_of(policies), account)


def task(
    simulator: Simulator, owner: Account, clients: contextlib.ExitStack, actor: Actor, role: str
) -> Attacker:
    """Return code on a host, which holds its role, with the rights that the role has in AWS."""
    iam, name = owner.client("iam"), role.rpartition("/")[2]
    documents = [
        iam.get_role_policy(RoleName=name, PolicyName=one)["PolicyDocument"]
        for one in iam.list_role_policies(RoleName=name)["PolicyNames"]
    ]
    arn = f"arn:aws:iam::{ACCOUNT}:role/{role}"
    return Attacker(actor, arn, rights_of(documents), host(owner, simulator, clients, role))


@dataclass
class Siege:
    """One attacker after another on one stage.

    Parameters
    ----------
    stage
        The account.
    cluster
        The cluster that the administrator uses, and whose genuine documents are forged.
    draws
        What everything is drawn from.
    administrator
        Uses terradask between the calls.
    """

    stage: Stage
    cluster: str
    draws: random.Random
    administrator: Administrator
    outcomes: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    used: set[tuple[str, str]] = field(default_factory=set)
    _ruses: Iterator[Ruse] = field(default_factory=lambda: cycle(RUSES))
    _said: list[str] = field(default_factory=list)
    _actors: list[Actor] = field(default_factory=list)
    _secret_texts: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _last: Snapshot = field(default_factory=dict)

    def episode(self, attacker: Attacker, steps: int, *, terraform: bool = False) -> bool:
        """Let an attacker make bursts of calls, with commands of the administrator between them,
        and undo everything. A person begins with a ruse, while the cluster is whole.

        Return whether the stage is as it was. Those who make roles and templates of their own, and
        sweeps of a cluster whose documents they deleted, can change what only Terraform makes.
        """
        self._said, self._actors, self._last = [], [attacker.actor], self.stage.base
        self._learn(self._last)
        if not attacker.actor.is_host:
            self._trick(attacker, next(self._ruses))
        for step in range(steps):
            self._burst(attacker)
            if self.draws.random() < 0.5 or step == steps - 1:
                seldom = terraform and step == steps - 1
                self._command(self.administrator.any_command(self.cluster, seldom=seldom))
        left = self.stage.restore()
        assert not left or attacker.actor.isolated, self._told("the stage is not as it was", left)
        return not left

    def deploy_anew(self) -> None:
        """Destroy and apply the clusters that an episode has broken, which always succeeds."""
        self.endings["deployed anew"] += 1
        try:
            self.stage.deploy_anew()
        except TerradaskError as error:
            raise AssertionError(self._told("not deployed anew", [error])) from error

    # ---- steps -----------------------------------------------------------------------------------

    def _burst(self, attacker: Attacker) -> None:
        simulator, names = self.stage.simulator, names_in(self._last, self.cluster)
        tags = {TAG_WORKSPACE: attacker.actor.workspace, TAG_CLUSTER: self.cluster}
        forger = Forger(self.draws, self.stage.genuine)
        drawing = Caller(self.draws, names, tags, forger.document)
        simulator.reset_calls()
        for _ in range(self.draws.randint(10, 25)):
            call = drawing.call(self.draws.choices(*_weighted(attacker.rights))[0])
            if call is not None:
                self._send(attacker, call)
        self._check_requests(attacker)
        self._look(attacker.actor)

    def _trick(self, attacker: Attacker, ruse: Ruse) -> None:
        stage = self.stage
        self._send(
            attacker, ruse(Target(stage.workspace, self.cluster, stage.bucket, stage.genuine))
        )
        self._look(attacker.actor)
        for name in TRICKED:
            self._command(self.administrator.command(name, self.cluster))

    def _send(self, attacker: Attacker, call: Call) -> None:
        outcome, answer = attacker.send(call)
        self._said.append(f"{attacker.actor.role}: {str(call)[:400]} -> {outcome}")
        self.outcomes[outcome] += 1
        self._check_answer(attacker, answer)

    def _command(self, command: Command) -> None:
        workspace = self.stage.workspace
        self.stage.simulator.reset_calls()
        ending = command.ending()
        self._said.append(f"administrator: {command.name} {self.cluster} -> {ending}")
        self.endings[f"{command.name}: {ending}"] += 1
        requests = self.stage.simulator.requests().get(ADMINISTRATOR, [])
        foreign = list(foreign_calls(requests, self._last, workspace, command.cluster))
        assert not foreign, self._told("an administrator's command called", foreign)
        actor = Actor("administrator", workspace, command.cluster, self._actors[0].isolated)
        self._actors.append(actor)
        self._look(actor)
        if (command.name, ending) == ("stop", "done"):
            self._check_stopped()

    # ---- what must hold --------------------------------------------------------------------------

    def _look(self, actor: Actor) -> None:
        now = self.stage.lens.take()
        wrong = [one for one in changes(self._last, now) if self._is_wrong(actor, one)]
        assert not wrong, self._told(f"changed by {actor.role}", wrong)
        crowded = _beyond_limits(now)
        assert not crowded, self._told("more hosts than the maximum", crowded)
        self._last = now
        self._learn(now)

    def _is_wrong(self, actor: Actor, change: Change) -> bool:
        actors = self._actors if change.kind in _LIVELY else [actor]
        return all(forbidden(one, change) for one in actors)

    def _learn(self, snapshot: Snapshot) -> None:
        """Note what secrets hold, to find it in answers."""
        self._secret_texts[""].add(canary(FOREIGN_BUCKET))
        for (kind, name), thing in snapshot.items():
            if kind == "secret" and thing.content["value"]:
                self._secret_texts[name].update(_KEY_MATERIAL.findall(thing.content["value"]))

    def _check_answer(self, attacker: Attacker, answer: str) -> None:
        read = [
            name
            for name, texts in self._secret_texts.items()
            if not attacker.actor.may_read(name) and any(text in answer for text in texts)
        ]
        assert not read, self._told("an answer holds what is in", read)

    def _check_requests(self, attacker: Attacker) -> None:
        logged = self.stage.simulator.requests().get(attacker.arn, [])
        for one in logged:
            if not one.allowed:
                continue
            self.used.add((attacker.actor.role, one.request.action))
            name = one.request.resource.partition(":secret:")[2][:-7]
            # Not by its content: attackers write parts of states themselves.
            reads = one.request.action in ("s3:GetObject", "s3:GetObjectVersion")
            if attacker.actor.is_host and reads:
                is_state = one.request.resource.endswith(".tfstate")
                assert not is_state, self._told("a host reads", [one.request.resource])
            if one.request.action == "secretsmanager:GetSecretValue":
                assert attacker.actor.may_read(name), self._told("read", [one.request.resource])

    def _check_stopped(self) -> None:
        """A stop has brought the cluster's groups to zero, and taken what was scheduled."""
        prefix = f"terradask-{self.stage.workspace}-{self.cluster}-"
        tags = {TAG_WORKSPACE: self.stage.workspace, TAG_CLUSTER: self.cluster}
        own = {
            (kind, name): thing
            for (kind, name), thing in self._last.items()
            if kind in ("number", "schedule")
            and name.startswith(prefix)
            and tags.items() <= thing.tags.items()
        }
        left = [key for key, thing in own.items() if key[0] == "schedule" or thing.content]
        assert not left, self._told("left by a stop", left)

    def _told(self, what: str, found: Iterable[object]) -> str:
        lines = [f"{what}:", *(f"  {one}" for one in found), "after", *self._said[-60:]]
        return "\n".join(lines)

    def report(self, attackers: Sequence[Attacker]) -> str:
        """Return what was done, how it ended, and which rights were never used."""
        calls = ", ".join(f"{code} {n}" for code, n in self.outcomes.most_common())
        commands = ", ".join(f"{one} ({n})" for one, n in sorted(self.endings.items()))
        counts = f"{self.outcomes.total()} calls, {self.endings.total()} commands"
        lines = [
            f"{self.stage.workspace}: {counts}",
            f"answers: {calls}",
            f"commands: {commands}",
            f"rights with which no call was let through: {', '.join(self.unused(attackers))}",
        ]
        return "\n".join(lines)

    def unused(self, attackers: Iterable[Attacker]) -> list[str]:
        """Return the rights of which no call was let through."""
        return sorted(
            {
                f"{one.actor.role} {right.action}"
                for one in attackers
                for right in one.rights
                if calls_of(right.action) and (one.actor.role, right.action) not in self.used
            }
        )


def _weighted(rights: Sequence[Right]) -> tuple[Sequence[Right], list[float]]:
    """Return rights with weights: changes more often than reads, removals less often."""

    def weight(right: Right) -> float:
        name = right.action.partition(":")[2]
        if name.startswith(("Describe", "List")):
            return 0.2
        return 0.5 if name.startswith(("Get", "Delete", "Remove")) else 1.5

    return rights, [weight(right) for right in rights]


def _beyond_limits(snapshot: Snapshot) -> list[str]:
    """Return the groups with more hosts than their maximum."""
    members = Counter(
        thing.tags.get("aws:autoscaling:groupName", "")
        for (kind, _), thing in snapshot.items()
        if kind == "instance"
    )
    return [
        f"{name}: {members[name]}"
        for (kind, name), thing in snapshot.items()
        if kind == "group" and members[name] > thing.content["MaxSize"]
    ]
