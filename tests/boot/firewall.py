"""Security groups as AWS has them between machines: packets that no rule admits are dropped, by
nftables, in the network namespace of each machine and in the tests' own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .metadata_service import ADDRESS as METADATA_ADDRESS
from .wires import ROUTER

_ANYWHERE = "0.0.0.0/0"
_TABLE = """\
table inet security_groups {{}}
delete table inet security_groups
table inet security_groups {{
  chain input {{
    type filter hook input priority 0; policy {policy};
    iif lo accept
    ct state established,related accept
{inwards}
  }}
  chain output {{
    type filter hook output priority 0; policy {policy};
    oif lo accept
    ct state established,related accept
    ip daddr {metadata} accept
{outwards}
  }}
}}
"""


class Firewall:
    """The security groups of an account at one moment.

    Parameters
    ----------
    ec2
        A client of the embedded AWS.
    """

    def __init__(self, ec2: Any) -> None:
        self._interfaces = ec2.describe_network_interfaces()["NetworkInterfaces"]
        pages = ec2.get_paginator("describe_security_group_rules").paginate()
        self._rules = [rule for page in pages for rule in page["SecurityGroupRules"]]
        lists = ec2.describe_managed_prefix_lists()["PrefixLists"]
        self._lists = {one["PrefixListId"]: _blocks(ec2, one["PrefixListId"]) for one in lists}

    def of_machine(self, address: str) -> str:
        """Return nftables' text for the machine with a private address; empty if none has it."""
        for interface in self._interfaces:
            if interface["PrivateIpAddress"] == address:
                # AWS, an index and a registry answer here, for what is at 443 elsewhere.
                elsewhere = any(map(_is_https, self._of(interface, outwards=True)))
                aws = f"ip daddr {ROUTER} {'accept' if elsewhere else 'drop'}"
                return _TABLE.format(
                    policy="drop",
                    metadata=METADATA_ADDRESS,
                    inwards=_lines(self._matches(interface, outwards=False)),
                    outwards=_lines([aws, *self._matches(interface, outwards=True)]),
                )
        return ""

    def of_others(self) -> str:
        """Return nftables' text for where servers answer that have interfaces and no machine."""
        inwards = [
            f"ip daddr {interface['PrivateIpAddress']} {each}"
            for interface in self._interfaces
            if "Attachment" not in interface
            for each in (*self._matches(interface, outwards=False), "drop")
        ]
        return _TABLE.format(
            policy="accept", metadata=METADATA_ADDRESS, inwards=_lines(inwards), outwards=""
        )

    def _matches(self, interface: Mapping[str, Any], *, outwards: bool) -> Iterator[str]:
        side = "daddr" if outwards else "saddr"
        for rule in self._of(interface, outwards=outwards):
            for block in self._peers(rule):
                yield f"ip {side} {block} {_ports(rule)} accept"

    def _of(self, interface: Mapping[str, Any], *, outwards: bool) -> Iterator[dict[str, Any]]:
        groups = {group["GroupId"] for group in interface["Groups"]}
        for rule in self._rules:
            if rule["GroupId"] in groups and rule["IsEgress"] is outwards:
                yield rule

    def _peers(self, rule: Mapping[str, Any]) -> list[str]:
        if "CidrIpv4" in rule:
            return [rule["CidrIpv4"]]
        if "PrefixListId" in rule:
            return self._lists.get(rule["PrefixListId"], [])
        group = rule.get("ReferencedGroupInfo", {}).get("GroupId")
        return [
            one["PrivateIpAddress"]
            for one in self._interfaces
            if any(group == each["GroupId"] for each in one["Groups"])
        ]


def put(text: str, pid: int | None = None) -> None:
    """Put a firewall into the network namespace of a process, or of this thread; established
    connections stay.
    """
    inside = [] if pid is None else ["nsenter", f"--net=/proc/{pid}/ns/net"]
    subprocess.run([*inside, "nft", "-f", "-"], input=text, text=True, check=True)


def _blocks(ec2: Any, prefix_list_id: str) -> list[str]:
    answer = ec2.get_managed_prefix_list_entries(PrefixListId=prefix_list_id)
    return [entry["Cidr"] for entry in answer["Entries"]]


def _is_https(rule: Mapping[str, Any]) -> bool:
    ports = range(rule.get("FromPort", 443), rule.get("ToPort", 443) + 1)
    return (
        rule.get("CidrIpv4") == _ANYWHERE and rule["IpProtocol"] in ("-1", "tcp") and 443 in ports
    )


def _ports(rule: Mapping[str, Any]) -> str:
    protocol = rule["IpProtocol"]
    if protocol == "-1":
        return ""
    if protocol == "icmp":
        return "meta l4proto icmp"
    return f"{protocol} dport {rule['FromPort']}-{rule['ToPort']}"


def _lines(rules: Iterable[str]) -> str:
    return "\n".join(f"    {rule}" for rule in rules)
