"""The result of `Cluster.reach`: for each target whether tasks reach it, else who refuses. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from terradask._clusters.reach.advice import (
    Advice,
    Side,
    call_advice,
    egress_advice,
    ingress_text,
)
from terradask._clusters.reach.outbound import (
    has_internet,
    is_address,
    is_private,
    lets_out,
    rules_let_out,
)
from terradask._clusters.reach.refusal import REFUSERS, Refusal, read_refusal
from terradask._clusters.reach.targets import CONNECTED, Target
from terradask._common.text_table import table
from terradask_host.documents import plain_text

if TYPE_CHECKING:
    from terradask._network.baseline import Baseline
    from terradask_modules.egress import Egress

State = Literal["reached", "refused", "not tried"]

_MOST_CHARACTERS = 1500


@dataclass(frozen=True)
class Reached:
    """The result for one target.

    Parameters
    ----------
    target
        As it was given, without a password.
    state
        "reached", "refused" or "not tried".
    refused_by
        The refuser, such as "own_rule", "their_rule" or "role"; None unless it is refused.
    text
        The finding, in a sentence.
    addresses
        Addresses of its name, or of AWS's endpoint.
    connected_seconds
        How long the connection took; None without one.
    allowed
        The actions of AWS that were allowed.
    toml
        Lines of ``terradask.toml`` that open it, or "".
    theirs
        Lines for the owner of the other side, or "".
    to_do
        Another action, or "".
    """

    target: str
    state: State
    refused_by: str | None = None
    text: str = ""
    addresses: tuple[str, ...] = ()
    connected_seconds: float | None = None
    allowed: tuple[str, ...] = ()
    toml: str = ""
    theirs: str = ""
    to_do: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return {**vars(self), "addresses": list(self.addresses), "allowed": list(self.allowed)}

    @property
    def time_text(self) -> str:
        """How long the connection took, such as ``3 ms``."""
        seconds = self.connected_seconds
        return "" if seconds is None else f"{max(1, round(seconds * 1000))} ms"


@dataclass(frozen=True)
class Reach:
    """The result of a cluster's host that has tried targets.

    Parameters
    ----------
    cluster
        The cluster's name.
    host
        Instance id of the host.
    caller
        ARN that AWS sees: the host's role, or the lent credentials'. None if AWS wasn't reached.
    security_groups
        The host's.
    results
        One for each target, in their order.
    """

    cluster: str
    host: str
    caller: str | None
    security_groups: tuple[str, ...]
    results: tuple[Reached, ...]

    def __iter__(self) -> Iterator[Reached]:
        return iter(self.results)

    @property
    def is_all_reached(self) -> bool:
        """Whether every target was reached."""
        return all(one.state == "reached" for one in self.results)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return {
            "cluster": self.cluster,
            "host": self.host,
            "caller": self.caller,
            "security_groups": list(self.security_groups),
            "is_all_reached": self.is_all_reached,
            "targets": [one.as_dict() for one in self.results],
        }

    def __str__(self) -> str:
        rows = [(one.target, one.state, one.time_text, one.text) for one in self.results]
        parts = [table(("target", "state", "time", "found"), rows)]
        parts += [_explained(one) for one in self.results if one.state != "reached"]
        return "\n".join(filter(None, parts))


def _explained(one: Reached) -> str:
    parts = []
    if one.toml:
        parts.append("  in terradask.toml, for terradask apply network:")
        parts += [f"    {line}" for line in one.toml.splitlines()]
    if one.theirs:
        parts.append(f"  on the other side: {one.theirs}")
    if one.to_do:
        parts.append(f"  to do: {one.to_do}")
    return "\n".join(["", f"{one.target}:", *parts]) if parts else ""


# ---- from what a host found ----------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """A host's findings on one target, as text and numbers of the right types: a worker's process,
    which runs tasks, has written them.
    """

    addresses: tuple[str, ...] = ()
    address: str | None = None
    port: int = 0
    connected_seconds: float | None = None
    endpoint: str | None = None
    proxy: str | None = None
    problem: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[Mapping[str, str | None], ...] = ()

    @classmethod
    def read(cls, document: Any) -> Found:
        """Read a host's document; what can't be read is left out."""
        given = document if isinstance(document, Mapping) else {}
        seconds = given.get("connected_seconds")
        port = given.get("port")
        return cls(
            tuple(map(_text, _listed(given.get("addresses")))),
            _text_or_none(given.get("address")),
            port if isinstance(port, int) else 0,
            float(seconds) if isinstance(seconds, int | float) else None,
            _text_or_none(given.get("endpoint")),
            _text_or_none(given.get("proxy")),
            _texts(given.get("problem")),
            tuple(one for one in map(_texts, _listed(given.get("calls"))) if one.get("call")),
        )

    @property
    def outcomes(self) -> list[tuple[str, Refusal | None]]:
        """Each call, and who refused it."""
        return [
            (
                str(one.get("call")),
                read_refusal(str(one.get("call")), one.get("code"), one.get("message") or ""),
            )
            for one in self.calls
        ]


def _listed(value: Any) -> list[Any]:
    return list(value)[:100] if isinstance(value, list | tuple) else []


def _text(value: Any) -> str:
    return plain_text(str(value))[:_MOST_CHARACTERS]


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _texts(value: Any) -> dict[str, Any]:
    given = value if isinstance(value, Mapping) else {}
    return {str(name): _text_or_none(each) for name, each in given.items()}


def judge(
    target: Target,
    found: Found,
    side: Side,
    baseline: Baseline,
    rules: Sequence[Egress] | None = None,
) -> Reached:
    """Return whether a target is reached, from what a host found, else who refuses it.

    `rules` are those of the host's security groups in AWS, if the caller may read them.
    """
    if target.kind is None:
        return Reached(target.text, "not tried", text=target.why_not or "")
    refusals = [refusal for _, refusal in found.outcomes if refusal is not None]
    allowed = tuple(call for call, refusal in found.outcomes if refusal is None)
    facts: dict[str, Any] = {
        "addresses": found.addresses,
        "connected_seconds": found.connected_seconds,
        "allowed": allowed,
    }
    if found.problem:
        by, text, advice = _of_connection(found, side, baseline, rules)
    elif refusals and not (allowed and target.kind in _ANY_CALL):
        by, text = _of_calls(refusals)
        advice = call_advice(target, refusals, side)
    elif found.connected_seconds is None if target.kind in CONNECTED else not allowed:
        by, text, advice = "unknown", "the host's answer has no result for it", Advice()
    else:
        return Reached(target.text, "reached", text=_reached_text(target, found, refusals), **facts)
    return Reached(
        target.text,
        "refused",
        by,
        text,
        **facts,
        toml=advice.toml,
        theirs=advice.theirs,
        to_do=advice.to_do,
    )


#: Kinds of which one allowed call is enough: others of them may be not meant.
_ANY_CALL = frozenset({"table", "key"})


def _reached_text(target: Target, found: Found, refusals: Sequence[Refusal]) -> str:
    if target.kind in CONNECTED:
        through = f" through the proxy {found.proxy}" if found.proxy else ""
        return f"{found.address or ', '.join(found.addresses)}{through}"
    words = ", ".join(call for call, refusal in found.outcomes if refusal is None)
    if refusals:
        refused = ", ".join(dict.fromkeys(one.action for one in refusals))
        return f"allowed: {words}; not allowed: {refused}"
    nothing = " (and nothing is there to read)" if words == "s3:ListBucket" else ""
    return f"allowed: {words}{nothing}"


def _of_calls(refusals: Sequence[Refusal]) -> tuple[str, str]:
    first = refusals[0]
    words = REFUSERS[first.by]
    if first.by in ("missing", "credentials", "busy", "unknown"):
        return first.by, f"{words}: {first.text}"
    denied = "denies" if first.is_explicit else "doesn't allow"
    if first.by == "role_or_policy":
        denied = "don't allow"
    on = f" on {first.resource}" if first.resource else ""
    return first.by, f"{words} {denied} {first.action}{on}"


def _of_connection(
    found: Found, side: Side, baseline: Baseline, rules: Sequence[Egress] | None
) -> tuple[str, str, Advice]:
    problem = found.problem
    kind, doing = problem.get("kind") or "failed", problem.get("doing")
    text = problem.get("text") or ""
    address = problem.get("address") or ", ".join(found.addresses)
    at = f"{address}:{found.port}" if found.port else address
    if kind == "timeout" and doing in (None, "connect"):
        return _timed_out(found, address, side, baseline, rules)
    if kind in _CONNECTION:
        by, words = _CONNECTION[kind]
        advice = Advice(to_do=_TO_DO.get(by, ""))
        return by, words.format(at=at, text=text, host=problem.get("host") or ""), advice
    if kind == "timeout":
        return "unknown", f"{doing} didn't end in time ({text})", Advice()
    return "unknown", f"{REFUSERS['unknown']}: {text}", Advice()


#: Kind of problem -> who refuses, and the sentence.
_CONNECTION = {
    "refused": ("closed_port", "{at} refuses the connection: nothing listens there"),
    "no_route": ("no_route", "no route to {at}: {text}"),
    "no_name": ("name", "the name {host} isn't known on the host: {text}"),
    "no_name_server": ("name_server", "no name server answers the host: {text}"),
    "tls": ("tls", "{at} is connected, and TLS fails: {text}"),
    "proxy": ("proxy", "the proxy refuses the connection: {text}"),
    "no_botocore": ("unknown", "botocore can't be imported on the host: {text}"),
    "no_client": ("credentials", "no client of AWS can be made: {text}"),
}

_TO_DO = {
    "closed_port": "start the service, or correct the port",
    "no_route": "have a route added in the hosts' subnets: peering, a transit gateway, or a NAT "
    "gateway (network.nat)",
    "name": "check the name; a private name needs its private hosted zone to be associated with "
    "the hosts' VPC, or their DNS to be forwarded",
    "name_server": "the VPC needs DNS support, or the servers of its DHCP options must answer",
    "tls": "give the cluster the authority's certificate (SSL_CERT_FILE in cluster.environ)",
    "proxy": "have the proxy admit the name, or name it in NO_PROXY (cluster.environ)",
}


def _timed_out(
    found: Found, address: str, side: Side, baseline: Baseline, rules: Sequence[Egress] | None
) -> tuple[str, str, Advice]:
    port = found.port
    first = next((each for each in (address, *found.addresses) if is_address(each)), "")
    if not first:
        return "unknown", f"no answer from {address or 'it'}", Advice()
    answer = declared = lets_out(baseline, side.cluster, first, port)
    if rules is not None:
        answer = rules_let_out(baseline, rules, first, port)
    ours = egress_advice(side, first, port)
    nat = "" if is_private(first) or has_internet(baseline) else _NO_INTERNET
    to_do = "; ".join(filter(None, (ours.to_do, nat)))
    theirs = ingress_text(side, port, "the addresses of the network's NAT gateways")
    no_answer = f"no answer from {first}:{port}"
    if answer == "no" and declared == "yes":
        text = f"{no_answer}: our security group lacks a rule that the network was applied with"
        return "own_rule", text, Advice(to_do="terradask apply network adds it again")
    if answer == "no":
        text = f"{no_answer}: our security group lets hosts out to no such address and port"
        return "own_rule", text, Advice(ours.toml, theirs if is_private(first) else "", to_do)
    if answer == "yes":
        text = f"{no_answer}: our rules let hosts out there, so their firewall or a route stops it"
        return "their_rule", text, Advice(theirs=theirs, to_do=nat)
    text = f"{no_answer}: a rule of a security group, ours or theirs, or a route stops it"
    return "some_rule", text, Advice(ours.toml, theirs, to_do)


_NO_INTERNET = (
    "workers have no route to the internet (network.nat is none): set it, or reach the target "
    "inside the VPC"
)
