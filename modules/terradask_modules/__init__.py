"""CDKTF constructs: typed settings in, Terraform resources out."""
