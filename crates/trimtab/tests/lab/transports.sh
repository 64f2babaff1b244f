# Runs inside the guest: tests the virtual SSD under each transport and prints the results,
# with WRONG for each unexpected one.
. /host/settings
T=/tmp/trimtab; cp /host/trimtab $T
export TRIMTAB_STATE_DIR=/tmp/state TRIMTAB_RUNTIME_DIR=/run/trimtab XDG_DATA_HOME=/tmp/data NO_COLOR=1
M=/mnt/ssd; mkdir -p $M
DRIVE=ocz-vertex-le-100gb
parts=" $* "
wants() { [[ $parts = *" all "* || $parts = *" $1 "* ]]; }
say() { echo "$(cut -d. -f1 /proc/uptime) s: $*"; }
is() { # NAME EXPECTED ACTUAL
  if [ "$2" = "$3" ]; then say "$1: $3"; else say "$1: $3, WRONG: should be $2"; fi
}
least() { # NAME MINIMUM ACTUAL
  if [ "${3:-0}" -ge "$2" ] 2> /dev/null; then say "$1: $3"; else say "$1: ${3:-nothing}, WRONG: should be at least $2"; fi
}
# One value of the only drive's status.
status() { $T drive status --json | python3 -c "
import json, sys
value = json.load(sys.stdin)['drives'][0]
for key in sys.argv[1].split('.'): value = value[key]
print(value)" "$1"; }
attach() { device=$($T drive attach "$@" 2> /tmp/remarks); local result=$?; name=${device##*/}; udevadm settle; return $result; }
queue() { cat "/sys/block/$name/queue/$1"; }
quiet() { sync; udevadm settle; }
ours() { local p; for p in /proc/[0-9]*; do [ "$(readlink $p/exe)" = $T ] && echo ${p#/proc/}; done; }
left() { # Devices, mounts and processes of the virtual SSD that remain.
  ls -d /sys/block/ublkb* /dev/ublkc* 2> /dev/null
  for d in /sys/block/loop*/loop; do [ -e "$d/backing_file" ] && echo "$d"; done
  ls /run/trimtab/drives 2> /dev/null; ours
  grep trimtab /proc/mounts
}
server() { status pid; }
detach() { $T drive detach "$@" > /tmp/detach 2>&1 || { cat /tmp/detach; return 1; }; }

modprobe -a loop fuse ext4 xfs btrfs
mkdir -p "$REPOSITORY" "$(dirname $PROGRAM)"
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose repository "$REPOSITORY"
say "Linux $(uname -r)"

if wants choice; then
  attach $DRIVE --size 256MiB --speed off
  is "without modules: transport" device "$(status transport)"; sed 's/^/   /' /tmp/remarks; detach
  modprobe ublk_drv
  attach $DRIVE --size 256MiB --speed off
  is "with ublk_drv: transport" ublk "$(status transport)"; sed 's/^/   /' /tmp/remarks; detach
  is "what is left" "" "$(left)"
fi
modprobe ublk_drv

if wants show; then for transport in $TRANSPORTS; do
  say "== $transport"
  attach $DRIVE --size 1GiB --speed off --transport $transport || { cat /tmp/remarks; say "WRONG: not attached"; continue; }
  is "transport" $transport "$(status transport)"
  for attribute in logical_block_size physical_block_size rotational write_cache fua discard_granularity discard_max_bytes discard_max_hw_bytes max_discard_segments write_zeroes_max_bytes max_sectors_kb minimum_io_size nr_requests; do
    printf '   %s %s\n' $attribute "$(queue $attribute 2> /dev/null)"
  done
  say "hardware queues: $(ls /sys/block/$name/mq | wc -l)"
  mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 $device && mount $device $M || say "WRONG: no filesystem"
  head -c 64M /dev/urandom > $M/file; sha256sum < $M/file > /tmp/sum; quiet
  echo 3 > /proc/sys/vm/drop_caches; is "read back" "$(cat /tmp/sum)" "$(sha256sum < $M/file)"
  before=$(status mapped_bytes); trims=$(status requests.trim.count)
  rm $M/file; quiet; fstrim $M
  least "bytes freed by fstrim" 67000000 $((before - $(status mapped_bytes)))
  say "TRIMs: $(($(status requests.trim.count) - trims)); the device counts $(awk '{print $12, $14}' /sys/block/$name/stat) discards and sectors"
  # In use: the detach is refused and changes nothing.
  $T drive detach > /tmp/detach 2>&1 && say "WRONG: detached while mounted"; sed 's/^/   /' /tmp/detach
  umount $M; e2fsck -fn $device > /tmp/fsck 2>&1 || { tail -n 3 /tmp/fsck; say "WRONG: e2fsck"; }
  # A zero-write is not a discard, and reads as zeros.
  head -c 4M /dev/urandom | dd of=$device bs=1M oflag=direct status=none
  trims=$(status requests.trim.count); writes=$(status requests.write.count)
  python3 - $device <<'PY' || say "WRONG: zero-writes"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(sys.argv[1], os.O_RDWR)
# FALLOC_FL_ZERO_RANGE: the block layer sends a zero-write that must not unmap.
if libc.fallocate(fd, 0x10, ctypes.c_long(0), ctypes.c_long(1 << 20)): sys.exit(os.strerror(ctypes.get_errno()))
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
sys.exit(any(os.pread(fd, 1 << 20, 0)))
PY
  say "a zero-write of 1 MiB: $(($(status requests.write.count) - writes)) writes, $(($(status requests.trim.count) - trims)) TRIMs"
  flushes=$(status requests.flush.count); dd if=/dev/zero of=$device bs=4k count=1 conv=fsync status=none
  least "flushes for an fsync" 1 $(($(status requests.flush.count) - flushes))
  flushes=$(status requests.flush.count); dd if=/dev/zero of=$device bs=4k count=4 oflag=direct,dsync status=none
  least "flushes for 4 durable writes" 4 $(($(status requests.flush.count) - flushes))
  fio --name=verify --filename=$device --rw=randwrite --bsrange=512-256k --bs_unaligned=0 --blockalign=4k --size=64M --io_size=32M --ioengine=libaio --iodepth=32 --direct=1 --verify=crc32c --output=/tmp/fio > /dev/null 2>&1 || { tail -n 5 /tmp/fio; say "WRONG: fio found other data"; }
  detach || say "WRONG: not detached"
  is "what is left" "" "$(left)"
done; fi

# A drive with a faulty TRIM: shows whether the transport separates discards from
# zero-writes that may unmap.
if wants lying; then for transport in $TRANSPORTS; do
  attach $DRIVE --size 256MiB --speed off --transport $transport --fault trim:pattern=0xAB || { cat /tmp/remarks; continue; }
  head -c 2M /dev/urandom | dd of=$device bs=1M oflag=direct status=none
  fallocate --punch-hole -l 1M $device; blkdiscard -o 1M -l 1M $device; echo 3 > /proc/sys/vm/drop_caches
  byte() { dd if=$device bs=4k skip=$1 count=1 iflag=direct status=none | od -An -v -tx1 | tr -s ' ' '\n' | sort -u | tr -d '\n'; }
  say "$transport, a drive whose trimmed blocks read as ab: after a zero-write $(byte 0), after a discard $(byte 256)"
  [ $transport = device ] || { is "after a zero-write" 00 "$(byte 0)"; is "after a discard" ab "$(byte 256)"; }
  detach
done; fi

if wants queues; then
  attach $DRIVE --size 256MiB --speed off --transport ublk
  for cpu in 0 1; do taskset -c $cpu dd if=/dev/zero of=$device bs=4k count=200 oflag=direct status=none; done
  pid=$(server)
  for thread in /proc/$pid/task/*; do printf '   %s %s switches\n' "$(cat $thread/comm)" "$(awk '/^voluntary/ {print $2}' $thread/status)"; done | grep ublk
  least "threads of queues that worked" 2 "$(for t in /proc/$pid/task/*; do grep -q ^ublk $t/comm && awk '/^voluntary/ && $2 > 100' $t/status; done | wc -l)"
  is "queues" 2 "$(ls /sys/block/$name/mq | wc -l)"
  detach; is "what is left" "" "$(left)"
fi

# A TRIM of 148 ms: a read delayed by it waits milliseconds on any machine.
if wants beside; then
  # During a queued TRIM the drive executes other commands.
  sed -e 's/^command_ns = .*/command_ns = 148_000_000/' -e 's/^queued = .*/queued = true/' $REPOSITORY/drives/$DRIVE.toml > /tmp/slow-trim.toml
  grep -E '^(command_ns|queued) = ' /tmp/slow-trim.toml | sed 's/^/   /'
  for transport in $TRANSPORTS; do
    attach /tmp/slow-trim.toml --size 256MiB --transport $transport || { cat /tmp/remarks; continue; }
    dd if=/dev/zero of=$device bs=1M count=128 oflag=direct status=none
    # One process keeps the device open, because every close makes udev examine the device.
    python3 -c "
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for i in range(10): fcntl.ioctl(fd, 0x1277, struct.pack('QQ', (i + 1) << 22, 1 << 20))" $device &
    fio --name=reads --filename=$device --rw=randread --bs=4k --offset=64M --size=64M --runtime=2 --time_based --ioengine=libaio --iodepth=1 --direct=1 --output-format=json --output=/tmp/fio.json > /dev/null
    wait $!
    say "$transport ($(queue scheduler)), ten TRIMs in a row beside reads: $(python3 -c "
import json; r = json.load(open('/tmp/fio.json'))['jobs'][0]['read']
print(r['total_ios'], 'reads, p50', r['clat_ns']['percentile']['50.000000'] // 1000, 'us, p99', r['clat_ns']['percentile']['99.000000'] // 1000, 'us, max', r['clat_ns']['max'] // 1000, 'us')")"
    say "   in the drive: TRIM mean $(status requests.trim.latency.mean_ns) ns, read p99 $(status requests.read.latency.p99_ns) ns"
    detach
  done
fi

if wants recovery; then for transport in $TRANSPORTS; do
  say "== $transport: a server that is killed"
  # Data in memory are lost with the server.
  attach $DRIVE --size 256MiB --speed off --transport $transport || { cat /tmp/remarks; continue; }
  pid=$(server); kill -9 $pid; sleep 1
  dd if=$device of=/dev/null bs=4k count=1 iflag=direct status=none 2> /tmp/dd && say "WRONG: reads go on"
  detach $DRIVE || say "WRONG: not detached"
  is "what is left" "" "$(left)"
  # Data in a file survive the server; its users get I/O errors.
  rm -f /tmp/disk*; attach $DRIVE --size 512MiB --speed off --transport $transport --data /tmp/disk
  mkfs.ext4 -q -F $device && mount $device $M; head -c 16M /dev/urandom > $M/before; sha256sum < $M/before > /tmp/sum; sync
  pid=$(server); kill -9 $pid; sleep 1
  (dd if=/dev/zero of=$M/x bs=1M count=4 conv=fsync 2> /tmp/dd; echo $? > /tmp/dd.status) & writer=$!
  sleep 1; timeout 60 $T drive detach --force $DRIVE > /tmp/detach 2>&1 || { cat /tmp/detach; say "WRONG: not detached by force"; }
  wait $writer; is "the writer gets an error" 1 "$(cat /tmp/dd.status)"
  umount -l $M; sleep 1; is "what is left" "" "$(left)"
  attach $DRIVE --size 512MiB --speed off --transport $transport --data /tmp/disk --adopt; e2fsck -fy $device > /tmp/fsck 2>&1; say "e2fsck -y of the data then: $?"
  mount $device $M; is "what was written before" "$(cat /tmp/sum)" "$(sha256sum < $M/before)"; umount $M; detach
done; fi

if wants unprivileged; then
  useradd -m tester 2> /dev/null; groupadd ublk 2> /dev/null; usermod -aG ublk tester
  cat > /etc/udev/rules.d/60-ublk.rules <<'R'
KERNEL=="ublk-control", MODE="0660", GROUP="ublk"
KERNEL=="ublk[bc]*", MODE="0660", GROUP="ublk"
R
  unset TRIMTAB_RUNTIME_DIR
  chmod 755 /tmp $T; as() { setpriv --reuid tester --regid tester --init-groups env HOME=/home/tester XDG_RUNTIME_DIR= PATH=$PATH "$@"; }
  udevadm control --reload; sleep 5; chmod 600 /dev/ublk-control
  as $T drive attach $DRIVE --size 256MiB --speed off > /tmp/denied 2>&1 && say "WRONG: attached"; sed 's/^/   /' /tmp/denied
  udevadm trigger --action=change /sys/class/misc/ublk-control; udevadm settle
  say "$(ls -l /dev/ublk-control)"
  device=$(as $T drive attach $DRIVE --size 256MiB --speed off 2> /tmp/remarks) || say "WRONG: not attached"; cat /tmp/remarks | sed 's/^/   /'; udevadm settle
  say "$(ls -l ${device:-/dev/ublkb0} 2>&1)"
  as /usr/sbin/mkfs.ext4 -q -F $device && as /usr/sbin/e2fsck -fn $device > /dev/null 2>&1 || say "WRONG: no filesystem by the user"
  say "$(as $T drive status | head -n 2)"
  pid=$(ours); say "the server's user is $(stat -c %U /proc/$pid)"
  as $T drive detach || say "WRONG: not detached by the user"
  is "what is left" "" "$(left)"
  device=$(as $T drive attach $DRIVE --size 256MiB --speed off 2> /dev/null); kill -9 $(ours); sleep 1
  as $T drive detach || say "WRONG: not cleaned up by the user"
  is "what is left" "" "$(left)"
  export TRIMTAB_RUNTIME_DIR=/run/trimtab
fi

if wants speed; then
  plain=/tmp/plain; truncate -s 256M $plain; dd if=/dev/zero of=$plain bs=1M count=256 conv=notrunc status=none
  one() { # DEVICE JOB…
    fio --name=x --filename=$1 --size=256M --ioengine=io_uring --direct=1 --runtime=2 --time_based --output-format=json --output=/tmp/fio.json "${@:2}" > /dev/null 2>&1
    python3 -c "
import json; job = json.load(open('/tmp/fio.json'))['jobs'][0]; side = job['read'] if job['read']['total_ios'] else job['write']
print('%.1f %.1f' % (side['iops'], side['clat_ns']['percentile']['50.000000'] / 1000))"
  }
  jobs=("--rw=randread --bs=4k --iodepth=1" "--rw=randwrite --bs=4k --iodepth=1" "--rw=randread --bs=4k --iodepth=32" "--rw=randwrite --bs=4k --iodepth=32" "--rw=read --bs=128k --iodepth=8" "--rw=write --bs=128k --iodepth=8")
  for round in 1 2 3; do
    for transport in plain $TRANSPORTS; do
      if [ $transport = plain ]; then device=$(losetup -f --show $plain) || continue; else attach $DRIVE --size 256MiB --speed off --transport $transport; dd if=/dev/zero of=$device bs=1M oflag=direct status=none 2> /dev/null; fi
      for job in "${jobs[@]}"; do echo "speed $round $transport | $job | $(one $device $job)"; done
      if [ $transport = plain ]; then losetup -d $device; else detach; fi
    done
  done
  rm $plain
fi

if wants tests; then
  cp /host/trimtab $PROGRAM; cp /host/it /tmp/it
  for transport in $TRANSPORTS; do
    export TRIMTAB_TEST_TRANSPORT=$transport
    (cd "$REPOSITORY/crates/trimtab" && timeout 2400 /tmp/it --test-threads 1 $TESTS) > /host/tests-$transport 2>&1
    say "$transport: tests ended with $?: $(grep '^test result' /host/tests-$transport)"
    grep -E '^test .*FAILED' /host/tests-$transport | sed 's/^/   /'
    is "what is left" "" "$(left)"
  done
fi
say "done"; echo "the end"
