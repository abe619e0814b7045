#!/bin/sh
# In a mount namespace of its own: a /dev with NVIDIA's nodes, as files that can be opened, then the command.
# Usage: unshare --mount sh with_nodes.sh [--hide FOLDER] [--closed] COMMAND...
set -eu
mount --make-rprivate /
closed=
while true; do
    case "$1" in
    --hide)
        mount -t tmpfs -o mode=755 hidden "$2"
        shift 2
        ;;
    --closed)
        closed=yes
        shift
        ;;
    *) break ;;
    esac
done
mount -t tmpfs -o mode=755 fake-dev /mnt
for name in null zero full random urandom tty ptmx; do
    [ -e "/dev/$name" ] || continue
    : > "/mnt/$name"
    mount --bind "/dev/$name" "/mnt/$name"
done
for name in shm pts; do
    [ -d "/dev/$name" ] || continue
    mkdir "/mnt/$name"
    mount --rbind "/dev/$name" "/mnt/$name"
done
for name in fd stdin stdout stderr; do cp -P "/dev/$name" "/mnt/$name"; done
for name in nvidiactl nvidia0 nvidia-uvm nvidia-uvm-tools; do
    : > "/mnt/$name"
    chmod 666 "/mnt/$name"
    # Read-only, so that opening it for writing fails for root, too.
    [ -z "$closed" ] || { mount --bind "/mnt/$name" "/mnt/$name" && mount -o remount,bind,ro "/mnt/$name"; }
done
mount --move /mnt /dev
exec "$@"
