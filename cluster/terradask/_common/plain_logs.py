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
        if record.exc_info and not record.exc_text:
            # Formatters take it as it is: the texts of others' errors are in it.
            record.exc_text = plain_text(logging.Formatter().formatException(record.exc_info))
        return True


def log_plainly() -> None:
    """Have all that this library logs pass the filter, once. It is the one logger's: what is logged
    by one below it would pass by.
    """
    logger = logging.getLogger("terradask")
    if not any(isinstance(one, PlainMessages) for one in logger.filters):
        logger.addFilter(PlainMessages())
