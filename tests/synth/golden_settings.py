"""Thirty settings whose stacks are kept whole: by name, what ``synth_text`` is called with."""

from __future__ import annotations

from typing import Any

from terradask_stacks.lock import EndpointService, LimitsLock

from .conftest import ACCOUNT

_SERVICES = ["secretsmanager", "autoscaling", "ec2", "logs", "sts"]
_KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/0123abcd-01ab-23cd-45ef-0123456789ab"
_BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
_ON_CALL = f"arn:aws:iam::{ACCOUNT}:role/team/on-call"
_ISOLATED = {"isolation": "cluster"}
_GIVEN_VPC = {
    "vpc_id": "vpc-0123456789abcdef0",
    "subnets": {
        zone: {
            "scheduler": f"subnet-0123456789abcde{zone[-1]}0",
            "worker": f"subnet-0123456789abcde{zone[-1]}1",
        }
        for zone in ("us-east-1a", "us-east-1b")
    },
}
_GIVEN_HOSTS = {
    "security_groups": {"scheduler": "sg-0123456789abcdef0", "worker": "sg-0123456789abcdef1"},
    "instance_profiles": {"scheduler": "dask-scheduler", "worker": "dask-worker"},
}
_OFFICE = {"cidr": "203.0.113.7/32", "description": "office"}
_DATABASE = {
    "destination": "sg-0123456789abcdefa",
    "ports": [5432],
    "reason": "orders database",
}
_LICENCES = {
    "destination": "10.1.0.0/16",
    "ports": ["27000-27009"],
    "reason": "licence server",
}
_MOUNTS = [
    {"path": "/data/lake", "bucket": "lake", "prefix": "2026"},
    {"path": "/data/home", "efs": "fs-0123456789abcdef0", "access": "write"},
    {"path": "/data/fast", "fsx_lustre": "fs-0123456789abcdef1", "mount_name": "fsx"},
]
BUDGETS: list[dict[str, Any]] = [
    {
        "name": "month",
        "amount_usd": 500,
        "forecast_percent": [100],
        "emails": ["team@example.com", "ada@example.com"],
    },
    {
        "name": "research",
        "amount_usd": 25.5,
        "period": "daily",
        "actual_percent": [50, 100.5],
        "topic_arn": f"arn:aws:sns:us-east-1:{ACCOUNT}:costs",
        "tags": {"team": "research"},
    },
]
_GPU = {
    "vm_types": ["g5.2xlarge", "g4dn.xlarge"],
    "n_workers": 1,
    "max_workers": 3,
    "spot_policy": "spot_with_fallback",
    "resources": {"GPU": 1},
}
_ATHENA = f"arn:aws:iam::{ACCOUNT}:policy/data/athena"
TASK_RIGHTS: dict[str, Any] = {
    "data_buckets": [
        "results",
        {"name": "lake", "prefix": "raw", "kms_key_arn": _KEY},
        {"name": "lake", "prefix": "tables", "access": "write", "kms_key_arn": _KEY},
    ],
    "task_rights": [
        {
            "reason": "prices table",
            "actions": ["dynamodb:GetItem", "dynamodb:Query"],
            "resources": [f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/prices*"],
            "conditions": {"StringEquals": {"aws:ResourceTag/team": "research"}},
        },
        {"reason": "catalog", "actions": ["glue:GetDatabases"], "resources": ["*"]},
        {"reason": "queries", "policy_arn": _ATHENA},
    ],
}
#: What was read of the managed policy.
TASK_POLICIES: dict[str, Any] = {
    "task_policies": {
        _ATHENA: [{"Sid": "Ask", "Effect": "Allow", "Action": ["athena:*"], "Resource": "*"}]
    }
}
_OF_ETL = [
    {
        "reason": "orders",
        "actions": ["secretsmanager:GetSecretValue"],
        "resources": [f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:orders-??????"],
        "clusters": ["etl", "etl-2"],
    },
    {
        "reason": "lake",
        "policy_arn": "arn:aws:iam::aws:policy/service-role/Lake",
        "clusters": ["etl"],
    },
]
OWN_TASK_RIGHTS = {**TASK_RIGHTS, "task_rights": [*TASK_RIGHTS["task_rights"], *_OF_ETL]}
_BIG = {"vm_types": ["r6i.4xlarge"], "disk_size": 500, "disk_throughput": 800}

NETWORK_LIMITS: dict[str, Any] = {
    "locked": {
        "limits": LimitsLock(
            limits={
                "team_tag": "team",
                "workspace": {"hosts": 200, "monthly_usd": 5000.0},
                "owners": {_ON_CALL: {"gpus": 8}},
            },
            set_by=_ON_CALL,
            set_at="2026-11-27T08:00:00Z",
        )
    }
}

NETWORKS: dict[str, dict[str, Any]] = {
    "default": {},
    "limits": NETWORK_LIMITS,
    "nat-none": {"network": {"nat": "none", "interface_endpoints": _SERVICES}},
    "nat-per-zone": {
        "zones": {"us-east-1a": 1, "us-east-1b": 0, "us-east-1c": 3},
        "network": {"nat": "per_zone", "interface_endpoints": ["sts"]},
    },
    "given-vpc": {
        "network": {
            **_GIVEN_VPC,
            "public_schedulers": False,
            "ingress": [_OFFICE],
            "egress": [_DATABASE, {**_LICENCES, "destination": "vpc"}],
        },
        "locked": {"vpc_blocks": ["10.0.0.0/16", "100.64.0.0/16", "2001:db8::/56"]},
    },
    "given-hosts": {
        "network": {
            **_GIVEN_VPC,
            **_GIVEN_HOSTS,
            "ingress": [_OFFICE],
            "data_buckets": ["lake/raw"],
        }
    },
    "task-rights": {"network": TASK_RIGHTS, "locked": TASK_POLICIES},
    "isolation-task-rights": {
        "workspace": _ISOLATED,
        "network": OWN_TASK_RIGHTS,
        "locked": TASK_POLICIES,
    },
    "public-workers": {"network": {"nat": "none", "public_workers": True}},
    "gpu-images": {
        "network": {"gpu_images": True, "worker_disk_sizes_gib": [60, 250]},
        "locked": {
            "gpu_image_ids": {"x86_64": "ami-0fedcba9876543210"},
            "gpu_image_sizes_gib": {"x86_64": 75},
        },
    },
    "session-manager": {
        "network": {
            "nat": "none",
            "public_schedulers": False,
            "session_manager": True,
            "interface_endpoints": [*_SERVICES, "ssm", "ssmmessages"],
        }
    },
    "both-architectures": {
        "network": {
            "architectures": ["x86_64", "arm64"],
            "image": "ami-00000001",
            "arm64_image": "ami-00000002",
        }
    },
    "company-rules": {
        "network": {
            "permissions_boundary": _BOUNDARY,
            "role_path": "/platform/",
            "role_name_prefix": "acme-",
            "kms_key_arn": _KEY,
        }
    },
    "budgets": {"network": {"budgets": BUDGETS}},
    "notify-emails": {"network": {"notify_emails": ["ada@example.com", "bo@example.com"]}},
    "dual-stack": {
        "network": {
            "dual_stack": True,
            "flow_logs": True,
            "log_retention_days": 90,
            "routes": {
                "10.1.0.0/16": "pcx-0123456789abcdef0",
                "2001:db8::/56": "tgw-0123456789abcdef0",
            },
        }
    },
    "ingress": {
        "network": {
            "allow_ingress_from_anywhere": True,
            "ingress": [
                {"cidr": "203.0.113.7/32", "ports": [8786, "8787-8788"]},
                {"cidr": "2001:db8::/56", "description": "${path.module}"},
                {"cidr": "0.0.0.0/0", "ports": ["8786"]},
                {"cidr": "::/0", "ports": [8788]},
            ],
        }
    },
    "own-state-bucket": {
        "workspace": {"name": "blue", "tags": {"team": "research", "cost": "42"}},
        "state": {"bucket": "ours", "kms_key_arn": _KEY},
        "network": {"data_buckets": ["lake/raw", "results"]},
    },
    "small": {
        "zones": {"cn-north-1a": 0},
        "locked": {
            "partition": "aws-cn",
            "endpoint_services": {
                "logs": EndpointService(
                    name="cn.com.amazonaws.cn-north-1.logs", zones=["cn-north-1a"]
                )
            },
        },
        "workspace": {"region": "cn-north-1"},
        "network": {
            "cidr": "10.1.0.0/24",
            "interface_endpoints": ["logs"],
            "private_subnet_prefix_length": 26,
            "public_subnet_prefix_length": 28,
            "worker_disk_size_gib": 30,
            "scheduler_disk_size_gib": 20,
            "cluster_launch_templates": True,
        },
    },
    "isolation": {
        "workspace": {**_ISOLATED, "tags": {"team": "research"}},
        "network": {
            "ingress": [_OFFICE],
            "nat": "none",
            "interface_endpoints": ["sts"],
            "data_buckets": ["lake/raw"],
            "egress": [_LICENCES, {**_DATABASE, "clusters": ["etl"]}],
            "mounts": _MOUNTS,
        },
    },
    "isolation-company-rules": {
        "workspace": _ISOLATED,
        "network": {
            "permissions_boundary": _BOUNDARY,
            "role_name_prefix": "acme-",
            "kms_key_arn": _KEY,
            "session_manager": True,
        },
    },
}

_GPU_IMAGE = {
    "gpus": {"g4dn.xlarge": 1, "g5.2xlarge": 1},
    "gpu_image": True,
}

CLUSTERS: dict[str, dict[str, Any]] = {
    "default": {},
    "spot": {
        "cluster": {
            "spot_policy": "spot",
            "max_workers": 30,
            "worker_vm_types": ["m6i.xlarge", "m5.xlarge"],
        }
    },
    "spot-with-fallback": {
        "cluster": {"spot_policy": "spot_with_fallback", "spot_fallback_seconds": 90}
    },
    "standby": {"cluster": {"standby": 2}},
    "worker-groups": {
        "cluster": {"worker_groups": {"gpu": _GPU, "plain": {}}, "tags": {"job": "7"}}
    },
    "gpu": {
        "cluster": {"worker_gpu": 1, "worker_gpu_type": "A10G", "scheduler_gpu": 0},
        "locked": {
            "worker_instance_types": ["g5.xlarge", "g5.2xlarge"],
            "asked": {"workers": {"worker_gpu": 1, "worker_gpu_type": "A10G"}},
            "reasons": {"workers": "one A10G", "zone": "us-east-1a: the only one"},
        },
    },
    "gpu-images": {
        "cluster": {
            "worker_groups": {"big": {"disk_size": 200}, "gpu": {**_GPU, "disk_size": 250}}
        },
        "locked": {
            **_GPU_IMAGE,
            "network_disks_gib": {"big": 250, "gpu": 250},
            "group_instance_types": {"big": ["r6i.4xlarge"], "gpu": _GPU["vm_types"]},
            "scheduler_instance_types": ["g4dn.xlarge"],
        },
    },
    "isolation-gpu-images": {
        "workspace": _ISOLATED,
        "cluster": {"worker_groups": {"gpu": _GPU}},
        "locked": {
            **_GPU_IMAGE,
            "group_instance_types": {"gpu": _GPU["vm_types"]},
        },
    },
    "disks": {
        "cluster": {
            "worker_disk_size": 200,
            "worker_disk_throughput": 800,
            "scheduler_disk_size": 20,
        }
    },
    "disks-of-the-network": {
        "cluster": {
            "worker_disk_throughput": 500,
            "scheduler_disk_size": 100,
            "worker_groups": {"big": {"disk_size": 200}, "gpu": _GPU},
        },
        "locked": {
            **_GPU_IMAGE,
            "network_disks_gib": {"scheduler": 250, "worker": None, "big": 250},
            "network_disks_mibps": {"scheduler": None, "worker": 500, "big": 500},
            "group_instance_types": {"big": ["r6i.4xlarge"], "gpu": _GPU["vm_types"]},
        },
    },
    "disks-of-groups": {"cluster": {"worker_groups": {"big": _BIG, "gpu": _GPU}}},
    "placement-group": {
        "cluster": {
            "placement_group": True,
            "worker_groups": {"gpu": _GPU},
            "tags": {"team": "research"},
        }
    },
    "arm": {
        "cluster": {
            "worker_vm_types": ["m7g.xlarge"],
            "scheduler_vm_types": ["m7g.large"],
            "scheduler_disk_size": 20,
        }
    },
    "private": {"cluster": {"private_to_creator": True, "secret_principals": [_ON_CALL]}},
    "zones": {
        "cluster": {"allow_cross_zone": True},
        "locked": {"zone": "us-east-1b", "worker_zones": {"workers": ["us-east-1a", "us-east-1b"]}},
    },
    "dask-options": {
        "workspace": {"name": "blue", "region": "eu-west-1", "tags": {"team": "research"}},
        "cluster": {
            "scheduler_options": {"idle_timeout": "1 hour"},
            "worker_options": {"nthreads": 4, "resources": {"LICENCE": 2}},
            "workers_per_host": 2,
            "extra_worker_on_scheduler": True,
            "use_dashboard_https": True,
            "connect": "ssm",
            "environ": {"OMP_NUM_THREADS": "1", "NAME": "${etl}"},
            "software": ["pandas==3.0.1"],
            "idle_timeout_seconds": False,
            "no_client_timeout_seconds": 300,
            "max_lifetime_seconds": 3600,
            "n_workers": [2, 10],
            "wait_for_workers": True,
            "tags": {"project": "forecast", "etl": "etl"},
        },
    },
    "isolation": {"workspace": _ISOLATED},
    "isolation-task-rights": {
        "workspace": _ISOLATED,
        "network": OWN_TASK_RIGHTS,
        "locked": {"task_policies": [_ATHENA, _OF_ETL[1]["policy_arn"]]},
    },
    "isolation-ingress": {
        "workspace": _ISOLATED,
        "cluster": {
            "allow_ingress_from": ["203.0.113.7/32", "2001:db8::/56"],
            "allow_ssh": True,
            "use_dashboard_https": True,
            "scheduler_port": 8700,
            "dashboard_port": 8701,
            "dashboard_https_port": 8702,
        },
    },
    "isolation-everything": {
        "workspace": {**_ISOLATED, "tags": {"team": "research"}},
        "cluster": {
            "arm": True,
            "spot_policy": "spot_with_fallback",
            "worker_disk_size": 200,
            "worker_groups": {
                "big": {**_BIG, "vm_types": ["r7g.4xlarge"]},
                "batch": {"spot_policy": "spot"},
            },
            "placement_group": True,
            "private_to_creator": True,
            "ingress": [{"ports": [8786, "8787-8788"], "cidr": "203.0.113.0/24"}],
            "tags": {"job": "7"},
        },
        "locked": {"group_instance_types": {"big": ["r7g.4xlarge"], "batch": ["c7g.large"]}},
    },
}
