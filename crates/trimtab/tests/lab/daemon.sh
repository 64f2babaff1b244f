# Runs inside the guest, from guest.sh: the daemon on ten filesystems for an hour of the
# guest's clock (which jumps over idle time), with suspends, unplugged drives and read-only
# remounts. Prints one line for each event and check, with WRONG if the daemon hangs, dies
# or blocks other work.
HOUR=3600; D=/mnt/d
exec > /tmp/table 2>&1
disks="nvme0 nvme1 nvmeign sata0 vd0 vdno sd0 bot0 uas0 mp0"; clean
on() { # NAME DEVICE POLICY [OPTIONS]
  mkdir -p $D/$1; mount ${4:-} "$2" $D/$1 || echo "WRONG: $1 could not be made"
  printf '[[filesystem]]\npath = "%s"\npolicy = "%s"\n' $D/$1 "$3" >> /tmp/t.toml; names+=" $1"
}
adaptive=adaptive:share=5%:at-most=30s:at-least=10min:poll=5s idle=idle:share=5%:at-least=10min:poll=5s batched=batched:every=5min
printf '[daemon]\nstate = "/tmp/state"\n' > /tmp/t.toml
ext4 $nvme0; on ext4-nvme $nvme0 $adaptive
luks $nvme1 home --allow-discards; ext4 /dev/mapper/home; on ext4-luks /dev/mapper/home $idle
mkfs.f2fs -q -f $nvmeign; on f2fs-ignored $nvmeign $batched "-o nodiscard"
mkfs.xfs -q -f $sata0; on xfs-sata $sata0 $idle
mkfs.btrfs -q -f $vd0; on btrfs-virtio $vd0 $adaptive "-o nodiscard"
ext4 $vdno; on ext4-blocked $vdno $adaptive
vg $sd0; lvcreate -qq -y --type thin-pool -n p -L 700m --chunksize 64k --discards passdown vg > /dev/null; lvcreate -qq -y -V 600m -T vg/p -n l > /dev/null; ext4 /dev/vg/l; on ext4-thin /dev/vg/l $batched
mkfs.vfat -F32 $bot0 > /dev/null; on vfat-usb $bot0 $batched
ext4 $uas0; on ext4-uas $uas0 $idle
multipath_on; ext4 /dev/mapper/many; on ext4-multipath /dev/mapper/many $adaptive

now() { awk '{print int($1)}' /proc/uptime; }
begun=$(now); at() { echo $(($(now) - begun)); }
say() { printf '%5s s | %s\n' "$(at)" "$*"; }
show() { cp /tmp/table /host/table1; cp /tmp/daemon.log /host/detail/daemon.log; }
$T daemon --config /tmp/t.toml 2> /tmp/daemon.log & daemon=$!
cost() { awk -v hz="$(getconf CLK_TCK)" '{printf "%.1f s of processor time", ($14 + $15) / hz}' /proc/$daemon/stat; echo ", $(awk '/VmRSS/ {print $2}' /proc/$daemon/status) kB (at most $(awk '/VmHWM/ {print $2}' /proc/$daemon/status)), $(ls /proc/$daemon/task | wc -l) threads, $(ls /proc/$daemon/fd | wc -l) descriptors"; }
# Foreground writes, which must never wait long for the daemon.
work() {
  local name slow=""
  for name in $names; do
    [ -w $D/$name ] && mountpoint -q $D/$name && timeout 120 sh -c "head -c 4M /dev/urandom > $D/$name/f && sync -f $D/$name; rm -f $D/$name/f" 2> /dev/null
    [ $? = 124 ] && slow+=" $name"
  done
  [ -z "$slow" ] || say "WRONG: two minutes were not enough for 4 MiB on$slow"
}
# The shares with the host do not survive a suspend, because their driver does not support
# it. They are detached before and attached after.
P9=/sys/bus/virtio/drivers/9pnet_virtio
shares_away() { show; umount /host /images || say "WRONG: the shares are in use"; ls $P9 | grep '^virtio' > /tmp/shares; while read -r share; do echo "$share" > $P9/unbind; done < /tmp/shares; }
shares_back() {
  while read -r share; do echo "$share" > $P9/bind; done < /tmp/shares
  mount -t 9p -o trans=virtio,version=9p2000.L,cache=none host /host; mount -t 9p -o trans=virtio,version=9p2000.L,cache=none,ro images /images; show
}
# The kernel's own suspend test: it freezes processes, suspends devices, and wakes by
# itself. (No alarm can wake this machine.)
asleep() { # SECONDS
  local before; before=$(at); say "suspended for $1 s: $(cost)"; shares_away
  echo devices > /sys/power/pm_test; echo $1 > /sys/module/suspend/parameters/pm_test_delay; echo freeze > /sys/power/state || say "WRONG: no suspend"
  shares_back; say "awake, $(($(at) - before)) s later; $(dmesg | grep -c 'PM: suspend exit\|PM: suspend entry') lines of suspends in the kernel's log"
}
done_=""
once() { case $done_ in *" $1 "*) return 1 ;; esac; [ "$(at)" -ge "$2" ] && done_+=" $1 "; }
say "the daemon begins: $(cost)"
while [ "$(at)" -lt "$HOUR" ]; do
  work
  once suspend 600 && asleep 20
  if once unplug 1000; then say "unplugged: the UAS drive and the NVMe drive of LUKS"; echo 1 > /sys/block/${uas0#/dev/}/device/delete; echo 1 > /sys/block/${nvme1#/dev/}/device/device/remove; fi
  if once plug 1400; then
    umount -l $D/ext4-uas; for host in /sys/class/scsi_host/host*/scan; do echo '- - -' > $host; done; echo 1 > /sys/bus/pci/rescan; sleep 5; udevadm settle
    name_disks; mount $uas0 $D/ext4-uas && say "the UAS drive is back as $uas0, and mounted"
  fi
  if once readonly 1800; then mount -o remount,ro $D/ext4-nvme && mount -o remount,ro $D/xfs-sata && say "ext4-nvme and xfs-sata are read-only"; fi
  if once writable 2300; then mount -o remount,rw $D/ext4-nvme && mount -o remount,rw $D/xfs-sata && say "and writable again"; fi
  if once busy 2500; then umount $D/btrfs-virtio && say "btrfs-virtio is unmounted under the daemon" && mount -o nodiscard $vd0 $D/btrfs-virtio; fi
  once again 2900 && asleep 20
  [ -e /proc/$daemon/stat ] || { say "WRONG: the daemon has ended"; break; }
  waiting=$(grep -l '^State:[[:space:]]*D' /proc/$daemon/task/*/status 2> /dev/null | wc -l); [ "$waiting" = 0 ] || say "$waiting threads wait for a device"
  for quarter in 900 1800 2700; do once "at$quarter" $quarter && say "$(cost)"; done
  show; sleep 45
done
say "the hour is over: $(cost)"
kill -TERM $daemon; before=$(at)
for i in $(seq 60); do [ -e /proc/$daemon ] || break; sleep 1; done
[ -e /proc/$daemon ] && say "WRONG: it has not ended" || { wait $daemon; say "it ended with $? within $(($(at) - before)) s of SIGTERM"; }
$T results list --store /tmp/state/history.db > /host/detail/history 2>&1
for name in $names; do
  say "$name: $(grep -c "$D/$name: pass complete" /tmp/daemon.log) passes complete, $(grep "$D/$name" /tmp/daemon.log | grep -ci 'stopped\|refused\|cannot\|fail\|blocked\|error\|not trimmed') lines of trouble"
done
dmesg | grep -i 'hung task\|blocked for more\|BUG\|Oops' | head -5
for name in $names; do umount -l $D/$name 2> /dev/null; done
show
