#!/bin/bash
# machine.sh SYSTEM FOLDER HOSTNAME DISK GROUP: boots the files of SYSTEM, which stay as they are, with
# systemd as process 1 in namespaces and a control group GROUP of its own; ends when it has powered
# off. FOLDER has `files`, laid over those of SYSTEM, and gets `console.log`. DISK is the size of the
# disk, as mount takes it; empty: the disk is in FOLDER. SYSTEM may be several folders, the uppermost
# first, with colons between them. The caller puts the network card `eth0` into its network namespace,
# and `network` into FOLDER: address, prefix and gateway.
set -euo pipefail
export system=$1 folder=$2 name=$3 disk=$4 control_group=$5
mkdir -p "$folder"/{disk,root,cgroups,files}
exec unshare --net --mount --pid --fork --uts --ipc --kill-child=SIGKILL -- bash -c '
set -euo pipefail
mount --make-rprivate /
[ -z "$disk" ] || mount -t tmpfs -o "size=$disk" tmpfs "$folder/disk"
mkdir -p "$folder"/disk/{upper,work}
cp -a "$folder/files/." "$folder/disk/upper/"
until [ -s "$folder/network" ] && ip link show eth0 >/dev/null 2>&1; do sleep .05; done
read -r address gateway <"$folder/network"
ip link set lo up
ip link set eth0 up
ip addr add "$address" dev eth0
ip route add default via "$gateway"

# A control group that is the root of its namespace, as of a computer of its own.
mount -t cgroup2 none "$folder/cgroups"
group=$folder/cgroups/$control_group
mkdir -p "$group"
echo $$ >"$group/cgroup.procs"
umount "$folder/cgroups"
exec unshare --cgroup -- bash -c '\''
set -euo pipefail
cd "$folder/root"
mount -t overlay overlay -o "lowerdir=$system,upperdir=$folder/disk/upper,workdir=$folder/disk/work" "$folder/root"
cd "$folder/root"
mount -t proc proc proc
# Where Xen says which computer this is: so cloud-init knows that it is EC2 and asks with tokens.
mount -t tmpfs -o mode=755 tmpfs sys
mkdir "$folder/root/sys.real"
mount -t sysfs sysfs sys.real
for part in sys.real/*; do
  mkdir "sys/${part#*/}"
  mount --bind "$part" "sys/${part#*/}"
done
umount sys.real
rmdir sys.real
mkdir -p sys/hypervisor
echo ec2e1916-9099-7caf-fd21-012345abcdef >sys/hypervisor/uuid
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
mount -t tmpfs -o mode=755 tmpfs run
mkdir dev/pts dev/shm run/lock
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 fuse:10:229; do
  IFS=: read -r file major minor <<<"$device"
  mknod -m 666 "dev/$file" c "$major" "$minor"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
touch dev/console "$folder/console.log"
mount --bind "$folder/console.log" dev/console
hostname "$name"
mkdir old
pivot_root . old
umount -l /old
rmdir /old
exec env -i container=boot PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --log-target=journal --show-status=no
'\''
'
