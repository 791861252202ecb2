"""Synthesis of the baseline and one cluster in a fresh process, against the same with the provider package imported the ordinary way."""

from __future__ import annotations

from benchmarks._measure import Row, Verdict, in_turn, seconds_of

_CODE = """
import json, sys, tempfile, time
from pathlib import Path
started = time.perf_counter()
if {ordinary}:
    import cdktf_cdktf_provider_aws
from terradask_stacks.lock import ClusterLock, LockFile, NetworkLock
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.synthesis import synthesize
network = NetworkLock(
    account="123456789012", partition="aws", zones={{f"us-east-1{{z}}": i for i, z in enumerate("abcdef")}}, image_ids={{"x86_64": "ami-0123456789abcdef0"}}
)
{cluster_lock}
with tempfile.TemporaryDirectory() as folder:
    synthesize({arguments})
    print(json.dumps(time.perf_counter() - started))
"""
