"""Session Manager: its sessions, and a `session-manager-plugin` of the embedded AWS's own."""
