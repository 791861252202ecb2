"""Events of a cluster and its hosts, with times and reasons, from AWS and from the hosts."""
