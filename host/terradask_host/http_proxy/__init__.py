"""The door of a dashboard for browsers: HTTP that asks for a token. Both ends have it, the scheduler's host and the user's machine."""
