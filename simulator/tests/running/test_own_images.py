"""Images that callers make of instances behave as EC2's: pending first, with tagged snapshots, and
one name each.
"""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from tests.waiting import eventually

pytestmark = pytest.mark.simulator

TAGS = [{"Key": "of", "Value": "the-test"}]
OF_THE_TEST = [{"Name": "tag:of", "Values": ["the-test"]}]


def test_an_image_is_pending_tagged_and_removed_with_its_snapshot(network):
    ec2 = network.ec2
    disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, "Encrypted": True}}
    base = ec2.describe_images(
        Owners=["amazon"], Filters=[{"Name": "name", "Values": ["al2023-ami-2*-x86_64"]}]
    )["Images"][0]["ImageId"]
    launch = {"InstanceType": "m7i.large", "SubnetId": network.subnets[0]}
    one = {"MinCount": 1, "MaxCount": 1}
    (instance,) = ec2.run_instances(ImageId=base, **launch, **one, BlockDeviceMappings=[disk])[
        "Instances"
    ]
    kinds = ("image", "snapshot")
    image = ec2.create_image(
        InstanceId=instance["InstanceId"],
        Name="one",
        TagSpecifications=[{"ResourceType": kind, "Tags": TAGS} for kind in kinds],
    )["ImageId"]

    def described():
        return ec2.describe_images(ImageIds=[image])["Images"][0]

    assert described()["State"] == "pending"
    with pytest.raises(
        ClientError, match=r"InvalidAMIID.Unavailable.* is pending, and cannot be run"
    ):
        ec2.run_instances(ImageId=image, **launch, **one)
    with pytest.raises(ClientError, match=r"InvalidAMIName.Duplicate.* already in use by AMI ami-"):
        ec2.create_image(InstanceId=instance["InstanceId"], Name="one")
    eventually(lambda: described()["State"] == "available")
    (root,) = described()["BlockDeviceMappings"]
    assert root["DeviceName"] == "/dev/xvda"
    assert (root["Ebs"]["VolumeSize"], root["Ebs"]["Encrypted"]) == (20, True)
    (snapshot,) = ec2.describe_snapshots(OwnerIds=["self"], Filters=OF_THE_TEST)["Snapshots"]
    assert (snapshot["SnapshotId"], snapshot["Encrypted"]) == (root["Ebs"]["SnapshotId"], True)
    with pytest.raises(ClientError, match=r"InvalidSnapshot.InUse"):
        ec2.delete_snapshot(SnapshotId=snapshot["SnapshotId"])
    (second,) = ec2.run_instances(ImageId=image, **launch, **one)["Instances"]
    small = [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 19}}]
    with pytest.raises(ClientError, match="InvalidBlockDeviceMapping"):
        ec2.run_instances(ImageId=image, **launch, **one, BlockDeviceMappings=small)
    ec2.deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    assert ec2.describe_snapshots(OwnerIds=["self"], Filters=OF_THE_TEST)["Snapshots"] == []
    ec2.terminate_instances(InstanceIds=[instance["InstanceId"], second["InstanceId"]])
