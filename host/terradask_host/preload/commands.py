"""Take clients' commands in the scheduler's process: one table says what takes each."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from terradask_host.commands import FORMAT, OPERATION, Command
from terradask_host.documents import UNREADABLE
from terradask_host.errors import CommandRefused
from terradask_host.http_proxy.pages import COMMAND_PAGE

#: What takes the arguments of each command, and returns or awaits the answer. It may raise
#: `CommandRefused`.
Handlers = Mapping[type[Command], Callable[..., Any]]


class Commands:
    """Answers a scheduler's clients from a table of handlers."""

    def __init__(self, scheduler: Any, handlers: Handlers) -> None:
        self._handlers = handlers
        self._by_operation = {each.__name__: each for each in handlers}
        scheduler.handlers[OPERATION] = self.take
        _add_page(scheduler.http_application, self)

    async def take(self, sealed: Any) -> bytes:
        """Take a command over Dask's connection, in a wrapper that logs don't show."""
        from distributed.protocol import Serialized, deserialize

        is_packed = isinstance(sealed, Serialized)
        content = deserialize(sealed.header, sealed.frames) if is_packed else sealed
        return await self.reply(content, over_forward=False)

    async def reply(self, content: bytes, *, over_forward: bool) -> bytes:
        """Return the reply to a packed command: its ``answer``, why it is ``refused``, or that it
        is ``unknown`` here.
        """
        import msgpack  # comes with Dask alone

        try:
            said = await self._said(msgpack.unpackb(content), over_forward)
        except CommandRefused as refusal:
            said = {"refused": refusal.to_document()}
        except UNREADABLE as error:
            said = {"refused": CommandRefused(f"it can't be read: {error}").to_document()}
        found: bytes = msgpack.packb({"format": FORMAT, **said})
        return found

    async def _said(self, document: Any, over_forward: bool) -> dict[str, Any]:
        cls = self._by_operation.get(document["operation"])
        if document["format"] != FORMAT or cls is None or cls.over_forward is not over_forward:
            return {"unknown": True}
        command = cls.read(document)
        try:
            answer = self._handlers[cls](**vars(command))
            return {"answer": await answer if inspect.isawaitable(answer) else answer}
        except CommandRefused:
            raise
        except Exception as error:
            traceback.print_exc()
            raise CommandRefused(f"it failed: {type(error).__name__}: {error}") from error


def _add_page(application: Any, commands: Commands) -> None:
    from tornado.web import RequestHandler  # comes with Dask alone

    class CommandPage(RequestHandler):
        async def post(self) -> None:
            self.write(await commands.reply(self.request.body, over_forward=True))

    application.add_handlers(".*$", [(COMMAND_PAGE, CommandPage)])
