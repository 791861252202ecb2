"""User data as the network renders it."""

from __future__ import annotations

VALUES = {
    "workspace": "default",
    "region": "us-east-1",
    "bucket": "terradask-default-123456789012-us-east-1",
    "log_group": "/terradask/default",
    "wheel_key": f"host/{'0a' * 32}/terradask_host-0.1.0-py3-none-any.whl",
    "wheel_sha256": "0a" * 32,
}
