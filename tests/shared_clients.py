"""What all boto3 clients of a process share in the tests, which make thousands: each otherwise
reads, derives and builds the same anew, which takes longer than most tests.
"""

from __future__ import annotations

import functools
from typing import Any

import botocore.session
import botocore.useragent
from botocore.client import ClientCreator
from botocore.hooks import EVENT_ALIASES, EventAliaser


def share() -> None:
    """Have every client made from now on share its service's model and methods, the names of
    events, and the parts of what it calls itself in each request.
    """
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)
    ClientCreator._create_methods = _shared_methods(ClientCreator._create_methods)
    EventAliaser.__init__ = _shared_names(EventAliaser.__init__)
    botocore.useragent.sanitize_user_agent_string_component = functools.lru_cache(4096)(
        botocore.useragent.sanitize_user_agent_string_component
    )


def _shared_methods(create: Any) -> Any:
    known: dict[tuple[str, str], dict[str, Any]] = {}

    def create_methods(creator: Any, service_model: Any) -> dict[str, Any]:
        key = (service_model.service_name, service_model.api_version)
        if key not in known:
            known[key] = create(creator, service_model)
        # Extensions of botocore's add methods to it.
        return dict(known[key])

    return create_methods


def _shared_names(initialise: Any) -> Any:
    known: dict[str, str] = {}

    def initialised(aliaser: Any, event_emitter: Any, event_aliases: Any = None) -> None:
        initialise(aliaser, event_emitter, event_aliases)
        if event_aliases is None or event_aliases == EVENT_ALIASES:
            aliaser._alias_name_cache = known

    return initialised
