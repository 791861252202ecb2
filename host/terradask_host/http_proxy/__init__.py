"""An HTTP proxy in front of a dashboard, for browsers: it asks for a token. The scheduler's host
has it, and the user's machine.
"""
