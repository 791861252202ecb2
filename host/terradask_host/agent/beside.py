"""What runs beside a scheduler, on its host: a worker, for small clusters whose scheduler has
little to do, and a notebook server.
"""

from __future__ import annotations

from terradask_host.agent.child import DaskChild
from terradask_host.agent.event_queue import ChildSaid
from terradask_host.agent.host import Host
from terradask_host.agent.launch_documents import extra_worker_document, jupyter_document
from terradask_host.agent.side_process import SideProcess
from terradask_host.rules.policy import Exit


def processes_beside(host: Host, scheduler: DaskChild) -> list[SideProcess]:
    """Start what the cluster's structure has beside this scheduler, which listens."""
    wanted = host.cluster.scheduler
    address = f"tls://{host.identity.private_address}:{wanted.port}"
    beside = []
    if wanted.extra_worker:
        beside.append(_worker(host, address))
    if wanted.jupyter:
        beside.append(_notebook_server(host, address, scheduler))
    return beside


def _worker(host: Host, address: str) -> SideProcess:
    document = extra_worker_document(host.config, host.identity, host.cluster, address, host.keys)
    return SideProcess(
        host, "worker", "worker beside the scheduler", lambda: host.with_proof(document)
    )


def _notebook_server(host: Host, address: str, scheduler: DaskChild) -> SideProcess:
    """Start the notebook server, and tell the scheduler's process how many kernels are open."""
    # Hosts that have their Python already are processes of the embedded AWS.
    document = jupyter_document(
        host.config.paths, address, allow_root=host.config.python is not None
    )

    def say_open(kernels: int) -> None:
        scheduler.send({"do": "kernels", "open": kernels})

    def take(said: ChildSaid) -> None:
        if said.event == "kernels":
            say_open(said.facts["open"])

    def note(end: Exit) -> None:
        say_open(0)
        host.reporter.note(host.identity.group, "ended", f"the notebook server: {end.describe()}")

    return SideProcess(
        host, "jupyter", "notebook server", lambda: document, on_said=take, on_ended=note
    )
