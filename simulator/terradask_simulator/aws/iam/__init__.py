"""IAM at the endpoint.

``evaluation`` decides requests by policies, with ``documents``, ``patterns`` and ``conditions``;
all four are pure. ``operation`` reads an HTTP request; ``mapping`` lists its required permissions,
with ``reference``, AWS's own list of them, and ``world``, the existing resources. ``principals``
finds the caller. ``gate`` combines them, and ``refusals`` writes the error. ``log`` records
requests.
"""
