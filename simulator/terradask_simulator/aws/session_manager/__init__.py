"""Session Manager: its sessions, and the embedded AWS's own `session-manager-plugin`."""
