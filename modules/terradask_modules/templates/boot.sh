#!/bin/bash
# Makes an instance of Amazon Linux 2023 a host. Runs once, as root, from cloud-init.
set -euo pipefail

readonly config=/etc/terradask/host.json
readonly base=/opt/terradask

say() { echo "terradask-boot: $*"; }

retry() {
  local attempt
  for attempt in 1 2 3 4 5; do
    if "$@"; then return 0; fi
    say "attempt ${attempt} of 5 failed: $1"
    sleep "$((attempt * 3))"
  done
  failed "${BASH_LINENO[0]}" "$*"
}

# One a line, of host.json.
setting() {
  python3 -c 'import functools, json, sys
settings = json.load(open(sys.argv[1]))
for name in sys.argv[2:]:
    print(functools.reduce(lambda value, key: value[key], name.split("."), settings))' "${config}" "$@"
}

# One of the instance metadata service's, by IMDSv2.
fact() {
  local imds=http://169.254.169.254/latest token
  token="$(curl -sf -m 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "${imds}/api/token")" || return 1
  curl -sf -m 5 -H "X-aws-ec2-metadata-token: ${token}" "${imds}/meta-data/$1"
}

# Whether AWS stops this instance in a warm pool, once it is prepared.
prepares() { [[ "$(fact autoscaling/target-lifecycle-state || true)" == Warmed:* ]]; }

# The Python of the run's environment. Tags may lag behind the launch.
python_of_run() {
  local attempt version
  for attempt in {1..10}; do
    if version="$(fact tags/instance/terradask:run:python)"; then break; fi
    sleep 1
  done
  if [[ "${version}" =~ ^3\.[0-9]{1,2}$ ]]; then echo "python${version}"; fi
}

# Says why in the places where clients look: clusters/<name>/hosts/<instance id>.json, and the host's
# log stream, which gets the whole output.
report() {
  local id cluster group run_id stream
  id="$(fact instance-id)"
  cluster="$(fact tags/instance/terradask:cluster || echo _images)"
  group="$(fact tags/instance/terradask:group)"
  run_id="$(fact tags/instance/terradask:run:id || true)"
  [[ -n "${id}" && -n "${cluster}" ]] || return 1
  python3 -c 'import json, sys, time
state, reason, instance_id, role, group, address, run_id = sys.argv[1:]
now = time.time()
at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
with open("/var/log/cloud-init-output.log", errors="replace") as log:
    lines = [line.rstrip("\n") for line in log]
with open("/run/terradask-boot.json", "w") as report:
    json.dump({"format": 1, "run_id": run_id or None, "instance_id": instance_id, "role": role, "group": group,
        "state": state, "reason": reason, "at": at, "history": [["booting", at], [state, at]],
        "notes": [] if state == "failed" else [[at, group, "unprepared", instance_id + ": " + reason]],
        "private_address": address, "log_tail": lines[-40:]}, report)
own = "terradask-boot: "
lines = [line if line.startswith(own) else "cloud-init: " + line for line in lines if line]
# In order, and below the size of a batch of CloudWatch.
lines = [line[:400] for line in lines[-1000:]] + [own + "ERROR: " + reason]
first = int(now * 1000) - len(lines)
with open("/run/terradask-boot-events.json", "w") as events:
    json.dump([{"timestamp": first + n, "message": line} for n, line in enumerate(lines)], events)' \
    "$1" "$2" "${id}" "$(fact tags/instance/terradask:role)" "${group}" "$(fact local-ipv4)" "${run_id}"
  aws s3 cp --only-show-errors --region "$(setting region)" /run/terradask-boot.json \
    "s3://$(setting bucket)/clusters/${cluster}/hosts/${id}.json"
  [[ "${run_id}" =~ ^[0-9]{8}T[0-9]{6}Z-[0-9a-f]+$ ]] || run_id=-
  stream=(--region "$(setting region)" --log-group-name "$(setting log_group)"
    --log-stream-name "${cluster}/${run_id}/${group}/${id}")
  aws logs create-log-stream "${stream[@]}"
  aws logs put-log-events "${stream[@]}" --log-events file:///run/terradask-boot-events.json >/dev/null
}

# Lets AWS stop this instance now, by its group's hook, which has the group's name. AWS may notice
# only some seconds later that the instance runs.
let_stop() {
  local group
  group="$(fact tags/instance/terradask:warm-pool)" || return 1
  for _ in {1..12}; do
    if aws autoscaling complete-lifecycle-action --region "$(setting region)" --auto-scaling-group-name "${group}" \
      --lifecycle-hook-name "${group}" --instance-id "$(fact instance-id)" --lifecycle-action-result CONTINUE; then
      return 0
    fi
    sleep 5
  done
  return 1
}

# A host that can't boot must not stay: it would cost and never join. The third argument has the
# reason, where it is known.
failed() {
  trap - ERR
  set +e
  # The log, which may have the message, lies on the same disk.
  local reason="${3:+boot.sh failed: $3}"
  [[ -n "${reason}" ]] || reason="boot.sh failed at line $1: $2 ($(df --output=avail --block-size=M "${base}" | tail -n 1 | tr -d ' M') MiB left on the disk)"
  # Without room on the disk, nothing of what follows could be relied on.
  rm -rf "${base}/archives" "${base}/cache"
  say "${reason}"
  local state=failed
  if prepares; then state=left; fi
  report "${state}" "${reason}" || say "the reason could not be reported"
  # AWS would replace one that it prepares, again and again. Stopped, it tries again when it is started.
  if [[ "${state}" == left ]]; then
    let_stop || say "AWS stops this host after 30 minutes"
    exit 1
  fi
  shutdown --poweroff +1 "terradask: this host could not boot"
  exit 1
}
trap 'failed "${LINENO}" "${BASH_COMMAND}"' ERR

# Unpacks the host program's list of packages, and uv, if that list has its checksum.
unpack() {
  python3.11 -c 'import hashlib, pathlib, re, sys, zipfile
wheel, uv, to = map(pathlib.Path, sys.argv[1:])
lock = zipfile.ZipFile(wheel).read("terradask_host/boot.lock").decode()
digest = hashlib.sha256(uv.read_bytes()).hexdigest()
if f"--hash=sha256:{digest}" not in re.search(r"^uv==.*(\n .*)*", lock, re.MULTILINE)[0].split():
    sys.exit(f"{uv.name} is not one that boot.lock lists: its SHA-256 is {digest}")
to.mkdir()
(to / "boot.lock").write_text(lock)
with zipfile.ZipFile(uv) as archive:
    program = next(name for name in archive.namelist() if name.endswith(".data/scripts/uv"))
    (to / "uv").write_bytes(archive.read(program))
(to / "uv").chmod(0o755)' "$@"
}

# A unit of a prepared host runs this when the host program has failed for good.
if [[ "${1:-}" == let_stop ]]; then
  if prepares; then let_stop || exit 1; fi
  exit 0
fi

# AWS may stop an instance that it prepares, and cloud-init runs this script at the first boot alone:
# until it has ended, later boots run it.
readonly again=/var/lib/cloud/scripts/per-boot/terradask
if prepares; then
  mkdir -p "${again%/*}" /var/lib/terradask
  ln -sf "${base}/boot.sh" "${again}"
  # For the host program: this instance's tags may name an earlier run.
  touch /var/lib/terradask/prepared
fi

values="$(setting wheel.key wheel.sha256 region bucket)"
{ read -r key; read -r sha256; read -r region; read -r bucket; } <<<"${values}"
readonly archives="${base}/archives" unpacked="${base}/unpacked"
wheel="${archives}/$(basename "${key}")"

# From Amazon Linux's repositories in S3, by the VPC's gateway endpoint. The host program has
# Python 3.11, and takes the run's from the system too.
install() { dnf --assumeyes --quiet --setopt=install_weak_deps=False install "$@"; }
of_run="$(python_of_run)" missing=()
for python in python3.11 ${of_run}; do
  command -v "${python}" >/dev/null || missing+=("${python}")
done
[[ -z "${missing[*]}" ]] || retry install "${missing[@]}"
# Before the first start no run names its Python: a prepared host gets all.
if [[ -z "${of_run}" ]] && prepares; then
  for python in python3.1{2..4}; do
    command -v "${python}" >/dev/null || install "${python}" || say "without ${python}"
  done
fi

# The host program and its own packages lie in one folder of the bucket.
get_host_program() {
  local from
  from="s3://${bucket}/$(dirname "${key}")/"
  # What an attempt has left may be all that the disk has room for.
  rm -rf "${archives}"
  aws s3 cp --recursive --only-show-errors --region "${region}" --exclude '*' --include '*-any.whl' \
    --include "*_$(uname -m).whl" "${from}" "${archives}/" || return 1
  [[ -f "${wheel}" ]] && compgen -G "${archives}/uv-*_$(uname -m).whl" >/dev/null && return 0
  say "${from} lacks the host program or its packages for $(uname -m): terradask doctor --fix"
  return 1
}
# In an image of the workspace's own it lies already, with the SHA-256 of the wheel that it came from.
readonly installed="${base}/venv/terradask.sha256"
if [[ "$(cat "${installed}" 2>/dev/null)" == "${sha256}" ]]; then
  say "the image has the host program"
else
  [[ ! -f "${installed}" ]] || say "the image has another host program: terradask image build makes a new one"
  retry get_host_program
  # Each archive has to be one that the user data names: the wheel by its checksum, the others by the
  # wheel's list. Of uv nothing runs before; uv itself checks the others.
  echo "${sha256}  ${wheel}" | sha256sum --check --strict --quiet
  uv_wheel=("${archives}"/uv-*_"$(uname -m)".whl)
  rm -rf "${unpacked}"
  unpack "${wheel}" "${uv_wheel[0]}" "${unpacked}" || failed "${LINENO}" "unpack ${uv_wheel[0]}"
  echo "${wheel} --hash=sha256:${sha256}" >>"${unpacked}/boot.lock"
  quiet=(--quiet --no-config --offline --cache-dir "${base}/cache")
  "${unpacked}/uv" venv "${quiet[@]}" --clear --python "$(command -v python3.11)" "${base}/venv"
  "${unpacked}/uv" pip install "${quiet[@]}" --python "${base}/venv/bin/python" --no-deps --no-index --compile-bytecode \
    --find-links "${archives}" --require-hashes --requirement "${unpacked}/boot.lock"
  echo "${sha256}" >"${installed}"
fi

getent passwd terradask >/dev/null ||
  useradd --system --user-group --home-dir /var/lib/terradask --no-create-home --shell /sbin/nologin terradask

# An instance of `terradask image build` runs no cluster: it becomes an image when cloud-init has ended.
if [[ "$(fact tags/instance/terradask:role)" == image ]]; then
  systemd-run --quiet --no-block --unit terradask-image --property After=cloud-final.service \
    "${base}/venv/bin/python" -m terradask_host.image
  say "terradask-image.service prepares the image"
  exit 0
fi

# Dask spills to the instance's local disks where it has any, else to its volume.
"${base}/venv/bin/python" -m terradask_host.disks || say "going on without local disks"

# By its systemd units, Dask runs in a container image, if the run has one.
volatile=()
if prepares; then volatile=(/run/systemd/system); fi
"${base}/venv/bin/python" -m terradask_host.units /etc/systemd/system "${config}" "${volatile[@]}"

# The network's own scripts: host_setup runs now, host_leave when the machine goes off.
why=/run/terradask-boot-reason
"${base}/venv/bin/python" -m terradask_host.host_scripts setup /etc/systemd/system "${why}" ||
  failed "${LINENO}" host_setup "$(cat "${why}")"

# Tasks' file systems. A host without them would let tasks write into its own folders.
"${base}/venv/bin/python" -m terradask_host.mounts "${config}" >"${why}" ||
  failed "${LINENO}" mounts "$(cat "${why}")"

# The host program, which isn't root, ships what cloud-init and this script print.
output=/var/log/cloud-init-output.log
chgrp terradask "${output}" && chmod g+r "${output}" || say "going on without the boot's log"

systemctl daemon-reload
systemctl enable --now --no-block terradask-container.socket
# Without waiting: the unit is ordered behind the boot, of which cloud-init is a part.
systemctl enable --now --no-block terradask-host.service
rm -f "${again}"
say "terradask-host.service starts"
rm -rf "${archives}" "${unpacked}" "${base}/cache" || say "what was unpacked is left"
