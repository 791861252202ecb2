"""What others write, as it should be, and how it gets damaged."""

from __future__ import annotations

import copy
import json
import string
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from .host_facts import SECRET

DATA = Path(__file__).with_name("data")
IN_SUITE, IN_SOAK = 20, 2000

#: Never to be seen in an error, wherever it was given.
PLANTED = "correct-horse-battery-staple"
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
TEXTS = st.text(max_size=40) | st.text(string.printable, max_size=40)


def paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where something stands in a document."""
    inner = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    return [path, *(found for key, value in inner for found in paths(value, (*path, key)))]


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> Any:
    """Return a document with parts taken away or replaced."""
    held = {"": copy.deepcopy(document)}
    for _ in range(draw(st.integers(1, 3))):
        *above, last = ("", *draw(st.sampled_from(paths(held[""]))))
        node: Any = held
        for key in above:
            node = node[key]
        if last != "" and draw(st.booleans()):
            del node[last]
        else:
            node[last] = draw(VALUES)
    return held[""]


def stored(name: str) -> Any:
    return json.loads((DATA / name).read_text())


AT = "2026-11-20T05:15:00Z"
GROUP = {
    "autoscaling_group": "terradask-default-etl-workers",
    "role": "worker",
    "max_size": 4,
    "zones": ["us-east-1a"],
}
CLUSTER = {
    "format": 1,
    "workspace": "default",
    "cluster": "etl",
    "region": "us-east-1",
    "bucket": "b",
    "zone": "us-east-1a",
    "groups": {"workers": GROUP, "scheduler": {**GROUP, "role": "scheduler"}},
    "secret_id": "terradask/default/etl",
    "settings": {"n_workers": 2},
    "lock": {"worker_instance_types": ["m6i.xlarge"], "scheduler_instance_types": ["m6i.xlarge"]},
    "worker": {"workers_per_host": 1},
}
RUN = {
    "format": 1,
    "run_id": "r1",
    "started_at": AT,
    "owner": "me",
    "secret_version_id": "v1",
    "python": "3.12",
    "packages": {"dask": "2026.8.0"},
    "n_workers": 2,
    "environ": {"DB_PASSWORD": PLANTED},
    "dask_config": {"array": {"chunk-size": "7 MiB"}},
    "life": {"idle_timeout_seconds": 60.0},
}
SCHEDULER = {
    "format": 1,
    "run_id": "r1",
    "instance_id": "i-1",
    "boot": 1,
    "private_address": "10.0.0.1",
    "public_address": None,
    "dashboard_port": 8787,
    "python": "3.12",
    "packages": {},
    "ended": {"at": AT, "reason": "idle"},
    "started_at": AT,
}
REPORT = {
    "format": 1,
    "instance_id": "i-1",
    "role": "worker",
    "group": "workers",
    "state": "failed",
    "reason": "x",
    "at": AT,
    "run_id": "r1",
    "private_address": "10.0.0.1",
    "history": [["booting", AT], ["failed", AT]],
    "reasons": [None, "x"],
    "log_tail": ["a", "b"],
    "notes": [[AT, "workers", "given up", "why"]],
}
KEYS = {"format": 1, "run_id": "r1", **SECRET, "client": {"cert": "-----BEGIN X", "key": PLANTED}}
JOURNAL = {
    "format": 1,
    "run_id": "r1",
    "events": [{"at": AT, "subject": "cluster", "state": "stopped", "group": None, "reason": "x"}],
}
STATE = {
    "serial": 4,
    "lineage": "l",
    "resources": [
        {
            "mode": "managed",
            "type": "aws_x",
            "name": "y",
            "instances": [{"attributes": {"id": "i-1", "password": PLANTED}}],
        }
    ],
}
EVENT = {
    "type": "apply_start",
    "@message": "m",
    "hook": {"resource": {"addr": "a.b"}, "action": "create", "elapsed_seconds": 2},
    "diagnostic": {
        "severity": "error",
        "summary": "s",
        "detail": "d",
        "range": {"filename": "f", "start": {"line": 1}},
    },
}
ARCHIVE = {"url": "https://host.example/probe-1.0-py3-none-any.whl"}
UV_LOCK = {
    "version": 1,
    "package": [
        {
            "name": "probe",
            "version": "1.0",
            "sdist": ARCHIVE,
            "wheels": [ARCHIVE | {"hash": "sha256:00"}],
        }
    ],
}
PYLOCK = {
    "lock-version": "1.0",
    "created-by": "me",
    "packages": [
        {"name": "probe", "version": "1.0", "wheels": [ARCHIVE | {"hashes": {"sha256": "00"}}]}
    ],
    "tool": {
        "terradask": {
            "format": 1,
            "channels": ["https://c.example/x"],
            "conda": [
                {
                    "name": "frame",
                    "version": "2.0",
                    "url": "https://c.example/x/noarch/frame-2.0-0.conda",
                    "sha256": "a" * 64,
                }
            ],
        }
    },
}
TOML = {
    "workspace": {
        "name": "default",
        "region": "us-east-1",
        "isolation": "workspace",
        "tags": {"team": "a"},
    },
    "network": {
        "cidr": "10.64.0.0/16",
        "nat": "single",
        "ingress": [{"cidr": "203.0.113.7/32", "ports": [8786]}],
        "data_buckets": ["a/b"],
    },
    "cluster": {
        "n_workers": [2, 4],
        "worker_memory": "16 GiB",
        "idle_timeout": "20 minutes",
        "environ": {"DB_PASSWORD": PLANTED},
    },
    "policy": {
        "waivers": [{"check": "P1", "address": "*", "reason": "because", "expires": "2026-12-01"}]
    },
}
PRICE = {
    "product": {"attributes": {"instanceType": "m6i.xlarge", "usagetype": "BoxUsage:m6i.xlarge"}},
    "terms": {
        "OnDemand": {
            "a": {"priceDimensions": {"b": {"unit": "Hrs", "pricePerUnit": {"USD": "0.192"}}}}
        }
    },
}
SPOT = {
    "InstanceType": "m6i.xlarge",
    "ProductDescription": "Linux/UNIX",
    "SpotPrice": "0.06",
    "Timestamp": 5,
    "AvailabilityZone": "a",
}
SHEET = {
    "format": 2,
    "key": "instance spot us-east-1",
    "as_of": AT,
    "usd": {"us-east-1a": {"m6i.xlarge": "0.06"}},
}
STACK = {
    "terraform": {},
    "resource": {
        "aws_launch_template": {
            "worker": {
                "user_data": "I2Nsb3VkLWNvbmZpZwo=",
                "metadata_options": {"http_tokens": "required"},
                "block_device_mappings": [{"ebs": {"encrypted": "true"}}],
                "network_interfaces": [
                    {
                        "associate_public_ip_address": "false",
                        "security_groups": ["${aws_security_group.worker.id}"],
                    }
                ],
                "tag_specifications": [{"resource_type": "instance", "tags": {"a": "b"}}],
            }
        },
        "aws_vpc_security_group_ingress_rule": {
            "x": {"cidr_ipv4": "0.0.0.0/0", "from_port": 1, "to_port": 2, "security_group_id": "sg"}
        },
        "aws_iam_role": {
            "worker": {"name": "w", "inline_policy": [{"policy": "{}"}], "assume_role_policy": "{}"}
        },
        "aws_iam_role_policy": {
            "worker": {
                "policy": json.dumps(
                    {"Statement": [{"Effect": "Allow", "Action": "iam:PassRole", "Resource": "*"}]}
                )
            }
        },
        "aws_s3_object": {"x": {"content": json.dumps({"password": PLANTED})}},
    },
    "data": {
        "aws_ami": {"x": {"owners": ["amazon"], "filter": [{"name": "owner-id", "values": ["1"]}]}}
    },
    "output": {"x": {"value": "y", "sensitive": True}},
    "provider": {"aws": [{"region": "us-east-1"}]},
}


def small_plan() -> Any:
    """Return a recorded plan, of a few resources."""
    plan = stored("plan_change.json")
    kept = {change["address"] for change in plan["resource_changes"][:6]}
    plan["resource_changes"] = plan["resource_changes"][:6]
    root = plan["configuration"]["root_module"]
    root["resources"] = [one for one in root["resources"] if one["address"] in kept]
    return {
        key: plan[key]
        for key in ("format_version", "resource_changes", "configuration", "output_changes")
        if key in plan
    }
