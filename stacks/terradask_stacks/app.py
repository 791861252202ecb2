"""The CDKTF app: stacks in, Terraform's JSON out. Importing this starts a Node process;
:mod:`.synthesis` imports it only if necessary.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from terradask_modules.aws import APP_CONTEXT, App, JSIIError
from terradask_modules.errors import InvalidInput
from terradask_stacks.cluster_stack import ClusterStack
from terradask_stacks.inputs import ClusterInputs, Inputs
from terradask_stacks.network_stack import NetworkStack


def render(stacks: Sequence[Inputs], *, whose: str = "") -> dict[str, str]:
    """Return each stack's ``cdk.tf.json``, by its name.

    Raises `InvalidInput` if the framework refuses a stack; it names `whose`, where stacks are
    synthesised by other names.
    """
    names = [inputs.name for inputs in stacks]
    with tempfile.TemporaryDirectory(prefix="terradask-synth-") as folder:
        try:
            app = App(outdir=folder, context=APP_CONTEXT)
            for inputs in stacks:
                _add(app, inputs)
            app.synth()
        # The framework runs in Node; its errors arrive as one of these, with a JavaScript trace.
        except (RuntimeError, JSIIError) as error:
            raise InvalidInput(
                f"the stacks can't be synthesised: {str(error).splitlines()[0]}",
                given=whose or ", ".join(names),
            ) from error
        return {
            name: Path(folder, "stacks", name, "cdk.tf.json").read_text(encoding="utf-8")
            for name in names
        }


def _add(app: App, inputs: Inputs) -> None:
    if isinstance(inputs, ClusterInputs):
        ClusterStack(
            app,
            name=inputs.name,
            workspace=inputs.settings.workspace,
            cluster=inputs.cluster,
            lock=inputs.lock,
            kms_key_arn=inputs.settings.network.kms_key_arn,
            version=inputs.version,
        )
    else:
        NetworkStack(
            app,
            settings=inputs.settings,
            lock=inputs.lock,
            wheel=inputs.wheel,
            scripts=inputs.scripts,
            version=inputs.version,
        )
