"""AWS's partitions: prefixes of ARNs, and suffixes of services' names. Pure.

A test compares them with botocore's own list.
"""

from __future__ import annotations

#: Partition -> suffix of its services' names.
_SUFFIXES = {
    "aws": "amazonaws.com",
    "aws-cn": "amazonaws.com.cn",
    "aws-eusc": "amazonaws.eu",
    "aws-iso": "c2s.ic.gov",
    "aws-iso-b": "sc2s.sgov.gov",
    "aws-iso-e": "cloud.adc-e.uk",
    "aws-iso-f": "csp.hci.ic.gov",
    "aws-us-gov": "amazonaws.com",
}
#: Prefix of a region's name -> its partition; all others are of ``aws``.
_PARTITIONS = {
    "cn-": "aws-cn",
    "eusc-": "aws-eusc",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
    "us-gov-": "aws-us-gov",
}
SUFFIXES = tuple(dict.fromkeys(_SUFFIXES.values()))


def dns_suffix(partition: str) -> str:
    """Return the suffix of a partition's services' names."""
    return _SUFFIXES.get(partition, _SUFFIXES["aws"])


def partition_of(region: str) -> str:
    """Return a region's partition, the first part of every ARN there."""
    return next((name for start, name in _PARTITIONS.items() if region.startswith(start)), "aws")
