"""IAM at the endpoint.

``evaluation`` decides requests from policies, with ``documents``, ``patterns`` and ``conditions``;
all of it is pure. ``operation`` reads an HTTP request; ``mapping`` lists the permissions that it
needs, with ``reference``, AWS's own list of them, and ``world``, what exists. ``principals`` finds
the caller. ``gate`` puts it together, ``refusals`` words the answer. ``log`` keeps what was asked
for, ``proof`` draws conclusions from it. ``roles`` makes roles with given policies, to act with
them.
"""
