"""Run clients' commands in the scheduler's process, by a table of handlers."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from terradask_host.commands import FORMAT, OPERATION, Command
from terradask_host.documents import UNREADABLE
from terradask_host.errors import CommandRefused
from terradask_host.http_proxy.pages import COMMAND_PAGE

#: A handler takes a command's arguments, and returns or awaits the answer. It may raise
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
        """Take a command over Dask's connection, in a wrapper that hides it from logs."""
        from distributed.protocol import Serialized, deserialize

        is_packed = isinstance(sealed, Serialized)
        content = deserialize(sealed.header, sealed.frames) if is_packed else sealed
        return await self.reply(content, over_forward=False)

    async def reply(self, content: bytes, *, over_forward: bool) -> bytes:
        """Return the reply to a packed command: its ``answer``, ``refused`` or ``unknown``."""
        import msgpack  # only Dask's environment has it

        try:
            reply = await self._answer(msgpack.unpackb(content), over_forward)
        except CommandRefused as refusal:
            reply = {"refused": refusal.to_document()}
        except UNREADABLE as error:
            reply = {"refused": CommandRefused(f"it can't be read: {error}").to_document()}
        found: bytes = msgpack.packb({"format": FORMAT, **reply})
        return found

    async def _answer(self, document: Any, over_forward: bool) -> dict[str, Any]:
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
    from tornado.web import RequestHandler  # only Dask's environment has it

    class CommandPage(RequestHandler):
        async def post(self) -> None:
            self.write(await commands.reply(self.request.body, over_forward=True))

    application.add_handlers(".*$", [(COMMAND_PAGE, CommandPage)])
