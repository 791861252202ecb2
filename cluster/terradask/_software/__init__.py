"""The running environment's packages: where each came from, and which of them hosts can have."""
