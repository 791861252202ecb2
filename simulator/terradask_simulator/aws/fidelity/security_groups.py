"""Security groups: rules keep and change their descriptions, and errors name what is wrong.

- A rule has a description whatever its peer is, and a change replaces it. moto drops it for
  security groups and prefix lists, so that every Terraform plan sets it again.
- Revoking a missing rule by its id fails with ``InvalidSecurityGroupRuleId.NotFound``, which the
  Terraform provider treats as success. moto answers ``InvalidPermission.NotFound``, which the
  provider treats as a failure.
- A rule for a group of a VPC that isn't peered fails with ``InvalidGroup.NotFound``
  (https://github.com/ansible/ansible/pull/28876). moto takes any group.
- The VPC's default group admits itself.
- A rule that exists is named in the error.

AWS (recorded): ModifySecurityGroupRules changes a rule's description.
tests/records/data/ec2-security-groups.json
AWS (recorded): a VPC's default security group admits its own members.
tests/records/data/ec2-security-groups.json
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install"]

_PROTOCOLS = {"6": "tcp", "17": "udp", "1": "icmp", "all": "-1"}


def install() -> None:
    """Replace moto's rules and their errors."""
    _know_rules()
    _know_peers()
    _name_duplicates()
    _admit_itself()


def _know_rules() -> None:
    from moto.ec2.models.security_groups import SecurityGroupBackend, SecurityGroupRule

    @around(SecurityGroupRule, "__init__")
    def initialise(initialise: Any, rule: Any, *args: Any, **kwargs: Any) -> None:
        initialise(rule, *args, **kwargs)
        prefix_list = kwargs.get("prefix_list_id") or (args[7] if len(args) > 7 else None) or {}
        peers = (rule.ip_range, rule.source_group, prefix_list)
        rule._embedded_description = next(
            (peer["Description"] for peer in peers if "Description" in peer), None
        )

    SecurityGroupRule.description = property(lambda rule: rule._embedded_description)

    @around(SecurityGroupBackend, "modify_security_group_rules")
    def modify(modify: Any, backend: Any, group_id: str, rules: dict[str, dict[str, Any]]) -> None:
        modify(backend, group_id, rules)
        group = backend.get_security_group_by_name_or_id(group_id)
        for rule_id, asked in rules.items():
            rule = group.get_rule(rule_id)
            # moto writes the description of any rule to its range, and no peer but CidrIpv4.
            rule.ip_range.pop("Description", None)
            if "ReferencedGroupId" in asked:
                rule.source_group = {**rule.source_group, "GroupId": asked["ReferencedGroupId"]}
            if "CidrIpv6" in asked:
                rule.ip_range["CidrIpv6"] = asked["CidrIpv6"]
            rule.prefix_list_id = asked.get("PrefixListId", rule.prefix_list_id)
            rule._embedded_description = asked.get("Description")
            peer = rule.source_group or rule.ip_range
            peer.pop("Description", None)
            if peer and rule._embedded_description is not None:
                peer["Description"] = rule._embedded_description

    @around(SecurityGroupBackend, "_sg_update_description")
    def describe(describe: Any, backend: Any, asked: Any, rule: Any) -> None:
        describe(backend, asked, rule)
        rule._embedded_description = asked._embedded_description

    for way in ("ingress", "egress"):
        around(SecurityGroupBackend, f"revoke_security_group_{way}")(_revoke_known(f"{way}_rules"))


# As a patch: simulator/upstream/release/ec2-revoked-rule-ids.patch
def _revoke_known(kept: str) -> Callable[..., Any]:
    from moto.ec2.exceptions import InvalidSecurityGroupRuleIdNotFoundError

    def revoke_known(revoke: Any, backend: Any, **asked: Any) -> Any:
        group = backend.get_security_group_by_name_or_id(
            asked["group_name_or_id"], asked.get("vpc_id")
        )
        known = {rule.id for rule in getattr(group, kept)} if group is not None else set()
        for rule_id in asked.get("security_rule_ids") or []:
            if group is not None and rule_id not in known:
                raise InvalidSecurityGroupRuleIdNotFoundError(rule_id)
        return revoke(backend, **asked)

    return revoke_known


def _know_peers() -> None:
    from moto.ec2.models.security_groups import SecurityGroupBackend

    def authorize_peered(authorize: Any, backend: Any, *args: Any, **asked: Any) -> Any:
        name = args[0] if args else asked["group_name_or_id"]
        group = backend.get_security_group_by_name_or_id(name, asked.get("vpc_id"))
        for source in asked.get("source_groups") or ():
            other = backend.get_security_group_from_id(source.get("GroupId"))
            if None not in (group, other) and not _are_peered(backend, group.vpc_id, other.vpc_id):
                raise ec2_error(
                    "InvalidGroup.NotFound",
                    "You have specified two resources that belong to different networks.",
                )
        return authorize(backend, *args, **asked)

    for way in ("ingress", "egress"):
        around(SecurityGroupBackend, f"authorize_security_group_{way}")(authorize_peered)


def _are_peered(backend: Any, vpc_id: str, other_id: str) -> bool:
    return vpc_id == other_id or any(
        {peering.vpc.id, peering.peer_vpc.id} == {vpc_id, other_id}
        for peering in backend.vpc_pcxs.values()
        if peering._status.code == "active"
    )


def _name_duplicates() -> None:
    from moto.ec2.exceptions import (
        InvalidPermissionDuplicateError,
        InvalidSecurityGroupDuplicateError,
    )
    from moto.ec2.models.security_groups import SecurityGroupBackend

    @around(SecurityGroupBackend, "create_security_group")
    def create(create: Any, backend: Any, name: str, description: str, **more: Any) -> Any:
        try:
            return create(backend, name, description, **more)
        except InvalidSecurityGroupDuplicateError as error:
            vpc_id = more.get("vpc_id") or backend.default_vpc.id
            raise ec2_error(
                "InvalidGroup.Duplicate",
                f"The security group '{name}' already exists for VPC '{vpc_id}'",
            ) from error

    def naming(kept: str) -> Callable[..., Any]:
        def authorize_new(authorize: Any, backend: Any, **asked: Any) -> Any:
            group = backend.get_security_group_by_name_or_id(
                asked["group_name_or_id"], asked.get("vpc_id")
            )
            known = {_told(rule) for rule in getattr(group, kept)} if group is not None else set()
            try:
                return authorize(backend, **asked)
            except InvalidPermissionDuplicateError as error:
                texts = [
                    _rule_text(peer, asked["ip_protocol"], asked["from_port"], asked["to_port"])
                    for peer in _peers(asked)
                ]
                text = next((text for text in texts if text in known), texts[0])
                raise ec2_error(
                    "InvalidPermission.Duplicate",
                    f'the specified rule "{text}" already exists',
                ) from error

        return authorize_new

    for way in ("ingress", "egress"):
        around(SecurityGroupBackend, f"authorize_security_group_{way}")(naming(f"{way}_rules"))


def _peers(asked: dict[str, Any]) -> list[str]:
    ranges = (one.get("CidrIp") or one.get("CidrIpv6") for one in asked.get("ip_ranges") or ())
    groups = (one.get("GroupId") for one in asked.get("source_groups") or ())
    lists = (one.get("PrefixListId") for one in asked.get("prefix_list_ids") or ())
    return [*ranges, *groups, *lists]


def _told(rule: Any) -> str:
    peer = (
        rule.cidr_ipv4 or rule.cidr_ipv6 or rule.source_group.get("GroupId") or rule.prefix_list_id
    )
    return _rule_text(peer, rule.ip_protocol, rule.from_port, rule.to_port)


def _rule_text(peer: Any, protocol: Any, from_port: Any, to_port: Any) -> str:
    name = _PROTOCOLS.get(str(protocol).lower(), str(protocol).lower())
    if name == "-1":
        return f"peer: {peer}, ALL, ALLOW"
    return f"peer: {peer}, {name.upper()}, from port: {from_port}, to port: {to_port}, ALLOW"


def _admit_itself() -> None:
    from moto.ec2.models.security_groups import SecurityGroup, SecurityGroupRule

    @around(SecurityGroup, "__init__")
    def initialise(initialise: Any, group: Any, *args: Any, **more: Any) -> None:
        initialise(group, *args, **more)
        if group.is_default:
            itself = {
                "GroupId": group.id,
                "OwnerId": group.owner_id,
                "UserId": group.owner_id,
            }
            group.ingress_rules.append(
                SecurityGroupRule(
                    group.ec2_backend, "-1", group.id, None, None, None, itself, is_egress=False
                )
            )
