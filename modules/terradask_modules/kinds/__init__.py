"""Every type of resource that terradask makes or finds, and what it knows of each: a file per
resource of AWS's, with its parts. Pure.

The order is that in which they are made: each stands on earlier ones only. Resources are adopted in
this order, and deleted in the opposite one.
"""

from __future__ import annotations

from terradask_modules.kinds.autoscaling_group import AUTOSCALING_GROUP
from terradask_modules.kinds.bucket import BUCKET, OBJECT
from terradask_modules.kinds.elastic_ip import ELASTIC_IP
from terradask_modules.kinds.end_topic import SUBSCRIPTION, TOPIC
from terradask_modules.kinds.flow_log import FLOW_LOG
from terradask_modules.kinds.host_parts import NETWORK_INTERFACE, VOLUME
from terradask_modules.kinds.iam import INSTANCE_PROFILE, POLICY, ROLE, ROLE_POLICY
from terradask_modules.kinds.internet_gateways import EGRESS_ONLY_GATEWAY, INTERNET_GATEWAY
from terradask_modules.kinds.kind import ResourceKind
from terradask_modules.kinds.launch_template import LAUNCH_TEMPLATE
from terradask_modules.kinds.log_group import LOG_GROUP
from terradask_modules.kinds.nat_gateway import NAT_GATEWAY
from terradask_modules.kinds.placement_group import PLACEMENT_GROUP
from terradask_modules.kinds.route_table import ASSOCIATION, ROUTE, ROUTE_TABLE
from terradask_modules.kinds.secret import SECRET
from terradask_modules.kinds.security_group import EGRESS_RULE, INGRESS_RULE, SECURITY_GROUP
from terradask_modules.kinds.subnet import SUBNET
from terradask_modules.kinds.vpc import VPC
from terradask_modules.kinds.vpc_endpoint import VPC_ENDPOINT

__all__ = ["KINDS"]

_IN_ORDER = (
    # Deleted last: while it exists, the network can be found.
    BUCKET,
    OBJECT,
    VPC,
    ROUTE_TABLE,
    ROUTE,
    SUBNET,
    ASSOCIATION,
    SECURITY_GROUP,
    VOLUME,
    NETWORK_INTERFACE,
    EGRESS_ONLY_GATEWAY,
    INTERNET_GATEWAY,
    ELASTIC_IP,
    TOPIC,
    SUBSCRIPTION,
    LOG_GROUP,
    POLICY,
    ROLE,
    ROLE_POLICY,
    INSTANCE_PROFILE,
    PLACEMENT_GROUP,
    LAUNCH_TEMPLATE,
    VPC_ENDPOINT,
    FLOW_LOG,
    NAT_GATEWAY,
    EGRESS_RULE,
    INGRESS_RULE,
    SECRET,
    AUTOSCALING_GROUP,
)

#: Terraform's type -> its kind; each after those that it stands on.
KINDS: dict[str, ResourceKind] = {kind.terraform: kind for kind in _IN_ORDER}
