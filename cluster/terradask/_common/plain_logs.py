"""What this library logs, without control characters: a handler may lead to a terminal."""

from __future__ import annotations

import logging


class PlainMessages(logging.Filter):
    """Takes control characters out of messages: hosts, tags and AWS's answers are in some."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through; one with control characters as one text without them."""
        from terradask_host.documents import plain_text

        text = record.getMessage()
        if not text.isprintable() and (plain := plain_text(text)) != text:
            record.msg, record.args = plain, ()
        return True


def log_plainly() -> None:
    """Have all that this library logs pass the filter, once."""
    logger = logging.getLogger("terradask")
    if not any(isinstance(one, PlainMessages) for one in logger.filters):
        logger.addFilter(PlainMessages())
