"""An HTTP proxy with a token, in front of a dashboard; runs on hosts and on the user's machine."""
