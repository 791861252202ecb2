"""CDKTF constructs: typed settings in, Terraform resources out.

The rights that callers need to make, change and destroy a construct's resources are in
:mod:`terradask_modules.caller_policies`.
"""
