# A cluster's resources as somebody would write them without terradask.
terraform {
  backend "s3" { region = "us-east-1" }
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.100.0"
    }
  }
}

provider "aws" { region = "us-east-1" }

variable "bucket" { type = string }
variable "name" { type = string }

data "aws_s3_object" "baseline" {
  bucket = var.bucket
  key    = "workspace.json"
}

locals { baseline = jsondecode(data.aws_s3_object.baseline.body) }

resource "aws_autoscaling_group" "group" {
  for_each                  = { scheduler = 1, worker = 200 }
  name                      = "by-hand-${var.name}-${each.key}"
  min_size                  = 0
  max_size                  = each.value
  vpc_zone_identifier       = [local.baseline.zones["us-east-1a"].private_subnet_id]
  wait_for_capacity_timeout = "0"
  force_delete              = true
  launch_template {
    id      = local.baseline.templates[each.key].x86_64.id
    version = local.baseline.templates[each.key].x86_64.version
  }
  tag {
    key                 = "name"
    value               = var.name
    propagate_at_launch = true
  }
  lifecycle { ignore_changes = [desired_capacity] }
}

resource "aws_secretsmanager_secret" "keys" {
  name                    = "by-hand/${var.name}"
  recovery_window_in_days = 0
}

resource "aws_s3_object" "descriptor" {
  bucket  = var.bucket
  key     = "by-hand/${var.name}.json"
  content = jsonencode({ name = var.name })
}
