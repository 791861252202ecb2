"""The dashboard's forward lets go of its connections when it closes."""

import asyncio
import ssl

from terradask._runtime.dashboard import DashboardForward


async def _never_answer(reader, writer):
    await reader.read()
    writer.close()


async def _hang_up(_reader, writer):
    writer.close()


def test_closing_ends_a_connection_that_is_still_reaching_for_the_host():
    async def main():
        silent = await asyncio.start_server(_never_answer, "127.0.0.1", 0)
        forward = DashboardForward("127.0.0.1", silent.sockets[0].getsockname()[1], ssl.create_default_context())
        await forward.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
        await asyncio.sleep(0.05)
        await forward.close()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        assert forward.port is None
        writer.close()
        silent.close()
        await asyncio.sleep(0.05)

    asyncio.run(main())


def test_a_host_that_cannot_be_reached_ends_the_connection():
    async def main():
        gone = await asyncio.start_server(_hang_up, "127.0.0.1", 0)
        port = gone.sockets[0].getsockname()[1]
        gone.close()
        await gone.wait_closed()
        forward = DashboardForward("127.0.0.1", port, ssl.create_default_context())
        await forward.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        await forward.close()

    asyncio.run(main())
