"""Arguments of other libraries' clusters, and what each is here. Pure."""

from __future__ import annotations

from collections.abc import Mapping

#: Argument -> what to give or do instead.
_HERE: Mapping[str, str] = {
    "configuration": "there are no named configurations: give its values as arguments, or declare "
    "the cluster in terradask.toml as [clusters.NAME]",
    "workspace": "the settings name the workspace: workspace.name in terradask.toml, or "
    "TERRADASK_WORKSPACE__NAME",
    "workers": "their number is n_workers, and hosts name them",
    "worker_vm_type": "worker_vm_types",
    "scheduler_vm_type": "scheduler_vm_types",
    "instance_type": "worker_vm_types and scheduler_vm_types",
    "worker_instance_type": "worker_vm_types",
    "scheduler_instance_type": "scheduler_vm_types",
    "cores": "worker_cpu",
    "memory": "worker_memory",
    "gpu": "worker_gpu",
    "minimum": "n_workers=[minimum, maximum], or adapt",
    "maximum": "n_workers=[minimum, maximum], or adapt",
    "docker_image": "container",
    "env_vars": "environ",
    "filesystem_size": "worker_disk_size and scheduler_disk_size",
    "availability_zone": "zone_name",
    "spot": "spot_policy",
    "cluster_timeout": "max_lifetime",
    "package_sync_only": "package_sync, with the list of packages",
    "protocol": "Dask's connections are always by mutual TLS",
    "security": "each run has keys of its own, for mutual TLS",
    "key_name": "allow_ssh opens port 22; network.image may have keys",
    "ami": "the network's image, for all hosts: network.image in terradask.toml",
    "iam_instance_profile": "the network's, for all hosts: network.instance_profiles",
    "vpc": "the network's: network.vpc_id and network.subnets in terradask.toml",
    "subnet_id": "the network's: network.subnets in terradask.toml",
    "security_groups": "the network's: network.security_groups in terradask.toml",
    "host_setup_script": "nothing: name packages in software, or an image as container",
    "extra_bootstrap": "nothing: name packages in software, or an image as container",
    "mount_bucket": "nothing: tasks read and write network.data_buckets with s3fs or boto3",
}


def what_it_is_here(name: str) -> str | None:
    """Return what an argument of another library is here; None if none is known."""
    return _HERE.get(name)
