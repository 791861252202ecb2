"""What can be known of a type of resource. Pure data, and functions of names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

from terradask_modules.iam import policy_text, statement
from terradask_modules.kinds.cluster_names import Shape
from terradask_modules.names import log_group_name
from terradask_modules.where import Where

#: What the loss of a kind means to running hosts.
HOSTS_NEED_IT = "its hosts can't do without it"


@dataclass(frozen=True)
class Listed:
    """How EC2 lists it by tags: boto3's method, the key of the list, the key of the id."""

    call: str
    listing: str
    id: str
    #: What comes before the hyphen in ids that AWS gives.
    prefix: str = ""

    @property
    def by_id(self) -> str:
        """The filter that finds it by its id; launch templates have none."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", self.id).lower()


@dataclass(frozen=True)
class Named:
    """How it is asked for where no list has tags: boto3's method, its parameter, the key of the
    answer; none where it takes more than a call.
    """

    call: str = ""
    argument: str = ""
    key: str = ""
    #: What is asked for, where that isn't the name; a path has slashes on both sides.
    arn: str = ""
    #: Its id in Terraform, where it has another one.
    id: str = ""


@dataclass(frozen=True)
class Deletion:
    """How it is deleted: boto3's method, and its parameter for the id."""

    call: str
    argument: str
    _: KW_ONLY
    in_list: bool = False
    more: Mapping[str, bool] = field(default_factory=dict)
    #: The parameter for the account, where the id begins with it and a colon.
    account: str = ""
    #: `gone`, `in_use`: the codes by which AWS says so, beside those that many types have.
    gone: tuple[str, ...] = ()
    in_use: tuple[str, ...] = ()


@dataclass(frozen=True)
class Charge:
    """What AWS charges for one: what it is called, and what isn't in its price."""

    what: str = ""
    note: str | None = None
    #: The product of the price list that it is one of; None if it costs by its use alone, or
    #: nothing.
    product: Literal["nat-gateway", "public-ipv4", "secret"] | None = None


@dataclass(frozen=True)
class Rights:
    """What EC2 calls the actions on one, which a caller takes."""

    #: Its type in ARNs.
    type: str
    make: str
    #: In or of what it is made: nothing else, a VPC, other resources of the network.
    within: Literal["nothing", "vpc", "others"]
    #: What is done to it afterwards, its deletion included.
    change: tuple[str, ...]
    #: The same, in a network that has, gets or loses IPv6 addresses.
    dual_stack: tuple[str, ...] = ()
    #: What the network makes none of it with, where that is given. None: it makes some always.
    given_with: Literal["vpc", "security_groups"] | None = "vpc"


@dataclass(frozen=True)
class Access:
    """The actions on one that isn't EC2's, each list with its statement's ``Sid``."""

    see: tuple[str, tuple[str, ...]]
    keep: tuple[str, tuple[str, ...]]
    #: Its ARN. None: AWS knows no resource for them.
    arn: Callable[[Where], str] | None = None


@dataclass(frozen=True)
class Writer:
    """The service of AWS that writes what one yields, by a role and into a log group of its own."""

    #: Of the role and the log group, behind what their names begin with.
    name: str
    principal: str
    #: What it writes of, in ARNs of EC2.
    type: str
    #: The text of the role's policy.
    policy: Callable[[Where], str]

    def log_group(self, workspace: str) -> str:
        """Return the log group's name."""
        return f"{log_group_name(workspace)}/{self.name}"

    def trust_policy(self, where: Where) -> str:
        """Return the document by which the service alone, and for this account alone, may take the
        role.
        """
        condition = {
            "StringEquals": {"aws:SourceAccount": where.account},
            "ArnLike": {"aws:SourceArn": where.arn("ec2", f"{self.type}/*")},
        }
        service = {"Service": self.principal}
        return policy_text(
            [statement("Allow", "sts:AssumeRole", principal=service, condition=condition)]
        )


#: Of what isn't charged for, or with the bucket that it belongs to.
#: AWS (documented): AWS doesn't charge for VPCs, subnets, security groups, Auto Scaling groups and
#: IAM. https://aws.amazon.com/vpc/pricing, https://aws.amazon.com/autoscaling/pricing,
#: https://aws.amazon.com/iam
FREE = Charge()


@dataclass(frozen=True)
class ResourceKind:
    """One type of resource."""

    #: Terraform's name of it.
    terraform: str
    _: KW_ONLY
    #: Types that exist before it: it is made and adopted after them, and deleted before them.
    after: tuple[str, ...] = ("aws_s3_bucket",)
    #: boto3's name of its service.
    service: str = "ec2"
    #: None: as only this type is, or with what it is part of.
    find: Listed | Named | None = None
    #: Searched only where it is configured: the caller may lack the permission otherwise.
    is_optional: bool = False
    #: None: with what it is part of.
    delete: Deletion | None = None
    #: The type that it is deleted with, and the key of that one's id in its description.
    part_of: tuple[str, str] | None = None
    #: Terraform's attribute for its name.
    name_attribute: str = "name"
    #: How `terradask._cleanup.adopt` finds one that a state lacks, to import it. None: not at all.
    adopt: str | None = None
    #: Its name among the orphans of a sweep.
    orphan: str = ""
    #: The key of its date in AWS; None if AWS has none.
    born: str | None = None
    #: None: not made by EC2, or not by a caller.
    rights: Rights | None = None
    access: Access | None = None
    #: The setting of the network's without which it has none.
    setting: str | None = None
    #: The name of each in its stack -> its name in AWS, from the setting's value. None: the network
    #: has one, ``this``, which AWS lists by its tags.
    names: Callable[[Where, Any], Mapping[str, str]] | None = None
    writer: Writer | None = None
    #: The text of the policy on one. None: it has none, or it isn't the same for each.
    policy: Callable[[Where], str] | None = None
    #: None: it depends on its attributes, or isn't known.
    price: Charge | None = None
    #: Which clusters have their own: each can, those with own templates, isolated ones.
    clusters: Literal["each", "templates", "isolated"] | None = None
    #: What a cluster's has in its state. None: no cluster has one.
    shape: Shape | None = None
    #: What the loss of one means, if its name doesn't say it.
    loss: str = ""
    #: The same, to running hosts that stand on it; empty if they don't.
    loss_to_hosts: str = ""
    #: Whether AWS refuses to delete it while an instance is in it, be that one's group gone.
    holds_hosts: bool = False
    #: Whether AWS makes it for an instance, and removes it with that.
    is_of_host: bool = False

    @property
    def noun(self) -> str:
        """What it is called where it is listed."""
        return self.terraform.removeprefix("aws_").replace("_", "-")


def action_of(call: str) -> str:
    """Return the action of a method of boto3, as policies name it, without its service."""
    return call.title().replace("_", "")


def in_ec2(
    terraform: str,
    noun: str = "",
    *,
    prefix: str,
    id: str = "",
    in_list: bool = False,
    gone: tuple[str, ...] = (),
    in_use: tuple[str, ...] = (),
    type: str = "",
    make: str = "",
    within: Literal["nothing", "vpc", "others"] | None = None,
    change: tuple[str, ...] = (),
    dual_stack: tuple[str, ...] = (),
    given_with: Literal["vpc", "security_groups"] | None = "vpc",
    setting: str | None = None,
    **more: Any,
) -> ResourceKind:
    """Return a kind whose calls and keys follow from its name, as most of EC2's do."""
    noun = noun or terraform.removeprefix("aws_")
    camel = noun.title().replace("_", "")
    id = id or f"{camel}Id"
    plural = "s" if in_list else ""
    delete = Deletion(
        f"delete_{noun}{plural}", id + plural, in_list=in_list, gone=gone, in_use=in_use
    )
    find = Listed(f"describe_{noun}s", f"{camel}s", id, prefix)
    rights = None
    if within is not None:
        changes = (action_of(delete.call), *change)
        rights = Rights(
            type or noun.replace("_", "-"),
            make or f"Create{camel}",
            within,
            changes,
            dual_stack,
            given_with,
        )
    return ResourceKind(terraform, find=find, delete=delete, rights=rights, setting=setting, **more)
