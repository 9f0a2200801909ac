#!/bin/sh
# Makes a base image for longhaul/runner/Dockerfile from a Debian mirror, where no registry can be reached.
# Run as root; needs debootstrap and Docker:
#   sudo longhaul/runner/base-image.sh longhaul-python:3.13
#   docker build -f longhaul/runner/Dockerfile --build-arg PYTHON_IMAGE=longhaul-python:3.13 -t longhaul-job .
# Debian 13 (trixie) has Python 3.13. DEBIAN_MIRROR names another mirror than deb.debian.org.
set -eu
tag=${1:?usage: $0 <tag of the image>}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates trixie "$root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}"

# Certificates that this machine trusts beside Debian's (a company's proxy): for pip as well.
find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$root/usr/local/share/ca-certificates/" \; 2>/dev/null || true
chroot "$root" update-ca-certificates

# Debian's own Python refuses pip; a virtual environment beside it does not, and has `python` too.
chroot "$root" python3 -m venv /usr/local/python

rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/*
tar -C "$root" --numeric-owner -c . | docker import \
    --change 'ENV PATH=/usr/local/python/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'CMD ["python"]' - "$tag"
