"""Remove control characters from this library's log messages, which may reach a terminal."""

from __future__ import annotations

import logging


class PlainMessages(logging.Filter):
    """Removes control characters from messages, which may contain texts of hosts, tags and AWS."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass every record, with control characters removed."""
        from terradask_host.documents import plain_text

        text = record.getMessage()
        if not text.isprintable() and (plain := plain_text(text)) != text:
            record.msg, record.args = plain, ()
        if record.exc_info and not record.exc_text:
            # Formatters use it unchanged, with others' error texts in it.
            record.exc_text = plain_text(logging.Formatter().formatException(record.exc_info))
        return True


def log_plainly() -> None:
    """Add the filter to this library's logger, once. Every module logs to this logger, since the
    filter would miss records of its children.
    """
    logger = logging.getLogger("terradask")
    if not any(isinstance(one, PlainMessages) for one in logger.filters):
        logger.addFilter(PlainMessages())
