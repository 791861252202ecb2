"""What happened to a cluster and its hosts, when and why: told from AWS's scaling activities and from what hosts report."""
