"""Starting a cluster that was applied again since this process read its structure."""

from __future__ import annotations

from functools import partial

import pytest

from terradask._aws.session import Aws
from terradask._clusters.start import with_start_options
from terradask._observe.record import ClusterRecord
from terradask.errors import InvalidInput

from .test_starting import DOCUMENT, Record, aws, starter_of

__all__ = ["aws"]

NONE = partial(with_start_options, n_workers=0)


class Applied(Record):
    """A record whose structure is what was applied."""

    descriptor = ClusterRecord.descriptor  # type: ignore[assignment]
    read_descriptor = ClusterRecord.read_descriptor
    update_descriptor = ClusterRecord.update_descriptor


def test_a_start_takes_what_was_applied_since_the_structure_was_read(aws: Aws) -> None:
    settings = {"environ": {}, "software": [], "send_dask_config": False, "software_lock": None}
    record = Applied(aws)
    record.objects.write("cluster.json", {**DOCUMENT, "settings": settings})
    assert record.descriptor.structure.worker.class_name == "distributed.Nanny"
    worker = {"class": "acme.Worker"}
    record.objects.write("cluster.json", {**DOCUMENT, "settings": settings, "worker": worker})
    run = starter_of(record).start(NONE, check_quotas=False)
    assert run.structure is not None
    assert run.structure.worker.class_name == "acme.Worker"


def test_what_only_the_old_structure_refuses_is_started(aws: Aws) -> None:
    settings = {"environ": {}, "software": [], "send_dask_config": False, "software_lock": None}
    record = Applied(aws)
    lacking = {**settings, "worker_groups": {"gpu": {"n_workers": 1}}}
    record.objects.write("cluster.json", {**DOCUMENT, "settings": lacking})
    assert record.descriptor.worker_groups == {"workers": ("workers",)}
    with pytest.raises(InvalidInput, match="no group of workers 'gpu'"):
        starter_of(record).start(NONE, check_quotas=False)
    record.objects.write("cluster.json", {**DOCUMENT, "settings": settings})
    assert starter_of(record).start(NONE, check_quotas=False).run_id == record.noted
