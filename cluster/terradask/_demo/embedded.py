"""Where the demo runs: an embedded AWS of its own, or the one that the environment names."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from terradask._demo.main_job import Calls, MainJob
from terradask._demo.story import Story
from terradask_modules.errors import InvalidInput


def run_demo(story: Story) -> None:
    """Show the main job. Raises `DemoFailed`, `InvalidInput`."""
    with (
        _embedded_aws(story) as calls,
        tempfile.TemporaryDirectory(prefix="terradask-demo-") as folder,
    ):
        MainJob(story, Path(folder), calls).run()
    story.end(f"Done in {story.seconds:.0f} s: everything was as promised, and nothing is left.")


@contextlib.contextmanager
def _embedded_aws(story: Story) -> Iterator[Calls]:
    from terradask_simulator import Simulator

    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        story.show(f"using the embedded AWS at {endpoint}, which the environment names")
        yield _calls_of(endpoint)
        return
    with Simulator.start() as simulator, simulator.applied():
        story.show(
            f"an embedded AWS of {simulator.info.region} answers at {simulator.endpoint_url}"
        )
        yield lambda: simulator.calls(by="resource")


def _calls_of(endpoint: str) -> Calls:
    """Return what reads the calls of an embedded AWS; refuse anything else, above all real AWS."""
    from terradask_simulator.lifecycle import of_this_environment
    from terradask_simulator.process import request_control

    info = of_this_environment()
    if info is None or info.endpoint_url != endpoint:
        raise InvalidInput(
            "the demo runs on an embedded AWS alone",
            given=f"AWS_ENDPOINT_URL={endpoint}",
            allowed="an embedded AWS that runs, or none: the demo then starts one of its own",
            advice="unset AWS_ENDPOINT_URL",
        )

    return partial(request_control, info, "GET", "calls?by=resource")
