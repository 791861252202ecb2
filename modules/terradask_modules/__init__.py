"""CDKTF constructs: typed settings in, Terraform resources out.

What callers need to make, change and destroy what a construct makes is in
:mod:`terradask_modules.caller_policies`.
"""
