"""Events of a cluster and its hosts, when and why: from AWS's scaling activities and from what hosts report."""
