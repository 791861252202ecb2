"""The CDKTF app: stacks in, Terraform's JSON out. Importing this starts a Node process;
:mod:`.synthesis` imports it only if necessary.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from terradask_modules.aws import APP_CONTEXT, App, JSIIError
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.cluster_stack import ClusterStack
from terradask_stacks.errors import SynthesisError
from terradask_stacks.lock import ClusterLock, NetworkLock
from terradask_stacks.network_stack import NetworkStack, WheelObject
from terradask_stacks.settings import ClusterSettings, Settings


@dataclass(frozen=True, kw_only=True)
class NetworkInputs:
    """The input of the network's stack."""

    settings: Settings
    lock: NetworkLock
    wheel_source: str
    wheel_key: str
    wheel_sha256: str


@dataclass(frozen=True, kw_only=True)
class ClusterInputs:
    """The input of a cluster's stack."""

    settings: Settings
    cluster: ClusterSettings
    lock: ClusterLock


Inputs = NetworkInputs | ClusterInputs


def render(stacks: Mapping[str, Inputs]) -> dict[str, str]:
    """Return each stack's ``cdk.tf.json``.

    Parameters
    ----------
    stacks
        Stack name -> its input.

    Raises
    ------
    SynthesisError
        If the framework refuses a stack.
    """
    with tempfile.TemporaryDirectory(prefix="terradask-synth-") as folder:
        try:
            app = App(outdir=folder, context=APP_CONTEXT)
            for name, inputs in stacks.items():
                _add(app, name, inputs)
            app.synth()
        # The framework runs in Node; its errors arrive as one of these, with a JavaScript trace.
        except (RuntimeError, JSIIError) as error:
            raise SynthesisError(
                f"the stacks can't be synthesised: {str(error).splitlines()[0]}",
                given=", ".join(stacks),
            ) from error
        return {
            name: Path(folder, "stacks", name, "cdk.tf.json").read_text(encoding="utf-8")
            for name in stacks
        }


def _add(app: App, name: str, inputs: Inputs) -> None:
    if isinstance(inputs, NetworkInputs):
        assert name == NETWORK_STACK
        NetworkStack(
            app,
            settings=inputs.settings,
            lock=inputs.lock,
            wheel=WheelObject(inputs.wheel_source, inputs.wheel_key, inputs.wheel_sha256),
        )
    else:
        ClusterStack(
            app,
            name=name,
            workspace=inputs.settings.workspace,
            cluster=inputs.cluster,
            lock=inputs.lock,
            kms_key_arn=inputs.settings.network.kms_key_arn,
        )
