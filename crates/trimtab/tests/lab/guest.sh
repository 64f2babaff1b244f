# Runs inside the guest: creates each stack, runs the commands on it and removes it. Disks
# have the names that the host gave them.
T=/tmp/trimtab; cp /host/trimtab $T; uname -r > /host/kernel
export TRIMTAB_STATE_DIR=/tmp/state TRIMTAB_RUNTIME_DIR=/run/trimtab XDG_DATA_HOME=/tmp/data NO_COLOR=1
M=/mnt/stack; mkdir -p $M
# The disks' nodes, found by the serial numbers that the host set. Other disks may have any
# serial number.
name_disks() {
  while read -r name serial; do
    [[ $serial =~ ^[A-Za-z0-9]+$ ]] && eval "$(echo "$serial" | tr A-Z a-z)=/dev/$name"
  done < <(lsblk -ndo NAME,SERIAL)
}
# On a busy machine udev may be slow.
for i in $(seq 60); do name_disks; [ -n "${nvme0:-}" ] && [ -n "${sata0:-}" ] && [ -n "${vd0:-}" ] && [ -n "${sd0:-}" ] && [ -n "${bot0:-}" ] && [ -n "${uas0:-}" ] && break; udevadm settle --timeout=10; done

# Helpers for the stack files.
pgrep() { # -P PARENT or -f PATTERN
  local of words
  case $1 in
    -P) grep -l "^PPid:[[:space:]]*$2\$" /proc/[0-9]*/status 2> /dev/null | cut -d/ -f3 | grep . ;;
    -f) for of in /proc/[0-9]*; do mapfile -d '' -t words 2> /dev/null < $of/cmdline && [[ "${words[*]}" =~ $2 ]] && echo ${of#/proc/}; done 2> /dev/null | grep . ;;
  esac
}
vg() { vgcreate -qq -y --metadatasize 1m vg "$@" > /dev/null; }
lv() { lvcreate -qq -y -Wy -Zy "$@" vg > /dev/null; }
ext4() { mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$@"; }
luks() { # DEVICE NAME [OPTION]
  echo -n pw | cryptsetup luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 -q "$1" -
  echo -n pw | cryptsetup open ${3:-} "$1" "$2" --key-file -
}

# Not every mkfs loads the modules that it needs.
for module in btrfs nilfs2 bcache loop; do modprobe -q $module; done
bcache_on() { # BACKING CACHE
  make-bcache -q --wipe-bcache -C "$2" -B "$1" > /dev/null || return
  udevadm settle
  for node in "$1" "$2"; do [ -e "/sys/class/block/${node#/dev/}/bcache" ] || echo "$node" > /sys/fs/bcache/register; done
  for i in $(seq 50); do [ -b /dev/bcache0 ] && break; sleep 0.1; done
  [ "$(cat /sys/block/bcache0/bcache/state)" != "no cache" ]
}
bcache_off() {
  umount $M 2> /dev/null
  for stop in /sys/block/bcache*/bcache/stop /sys/fs/bcache/*-*/stop; do [ -e "$stop" ] && echo 1 > "$stop"; done
  for i in $(seq 50); do ls /sys/fs/bcache/*-* > /dev/null 2>&1 || [ -e /sys/block/bcache0 ] || break; sleep 0.1; done
}
multipath_on() { # One drive with two paths, as /dev/mapper/many.
  local id; modprobe dm-multipath dm-round-robin 2> /dev/null
  id=$(udevadm info --query=property --name "$mp0" | sed -n 's/^ID_SERIAL=//p')
  printf 'defaults {\n find_multipaths no\n}\nblacklist {\n wwid ".*"\n}\nblacklist_exceptions {\n wwid "%s"\n property ".*"\n}\nmultipaths {\n multipath {\n wwid "%s"\n alias many\n}\n}\n' "$id" "$id" > /etc/multipath.conf
  multipath -v1; udevadm settle
  [ "$(dmsetup deps -o devname many | grep -o '(sd[a-z]*)' | wc -l)" = 2 ]
}

# Ground truth: MiB that the host's image files occupy.
occupied() { local sum=0 d; for d in $disks; do sum=$((sum + $(stat -c %b "/images/$d.raw"))); done; echo $((sum / 2048)); }
quiet() { local now then i; then=$(occupied); for i in 1 2 3 4 5 6 7 8; do sleep 0.25; now=$(occupied); [ "$now" = "$then" ] && [ $i -gt 2 ] && return; then=$now; done; }
write_some() { local i; for i in 1 2 3; do head -c 8M /dev/urandom > $M/f$i; done; sync; quiet; }
write_and_delete() { write_some; rm $M/f?; sync -f $M; sync; quiet; }
# Runs the commands in the doctor's output that match.
printed() { local step; while read -r step; do echo "+ $step"; bash -c "$step" < /dev/null || return; done < <($T doctor "${subject:-$M}" | sed -n 's/^ *run: //p' | grep -E "$1"); }

clean() {
  local d node
  # Leave no record of another stack to undo.
  rm -rf "$TRIMTAB_STATE_DIR"
  umount $M 2> /dev/null || umount -l $M 2> /dev/null
  [ "$(wc -l < /proc/swaps)" -gt 1 ] && swapoff -a
  for d in 1 2 3; do
    ls /sys/block | grep -q '^dm-' || break
    vgchange -qq -an > /dev/null 2>&1
    for node in $(dmsetup ls --target crypt 2> /dev/null | awk '{print $1}'); do cryptsetup close "$node" 2> /dev/null; done
    dmsetup remove_all -f > /dev/null 2>&1
  done
  ls /sys/block | grep -q '^md' && mdadm -q --stop --scan 2> /dev/null
  for d in $disks; do
    node=${!d}
    # Signatures are at both ends.
    head -c 1M /dev/zero > "$node"; dd if=/dev/zero of="$node" bs=64K seek=16383 count=1 conv=notrunc status=none
    blkdiscard -qf "$node" 2> /dev/null
  done
  udevadm settle
}

# Resets the variables and functions of the previous stack.
reset() { unset disks truth subject mended init; unset -f by_hand trial; after() { :; }; also() { :; }; verdict="" facts=""; }

expect() { # NAME EXPECTED ACTUAL
  facts+="${facts:+, }$1 $3"; [ "$2" = "$3" ] || verdict+="WRONG: $1 should be '$2'; "
}

try() { # NAME
  local doctor trim verify freed_by_trim freed_by_fstrim before
  reset; . "/host/stacks/$1"; [ -n "${truth:-}" ] || return
  clean
  make > /tmp/make 2>&1 || { tail -n 3 /tmp/make; echo "$1: WRONG: it could not be made"; after > /dev/null 2>&1; clean; return; }
  $T doctor --record "/host/trees/$1" "${subject:-$M}" > /tmp/doctor 2>&1; doctor=$?
  write_and_delete; before=$(occupied); $T trim $M > /tmp/trim 2>&1; trim=$?; quiet; freed_by_trim=$((before - $(occupied)))
  $T verify --yes --reserve 1MB --size 4MiB $M > /tmp/verify 2>&1; verify=$?
  write_and_delete; before=$(occupied); fstrim $M 2> /tmp/fstrim; quiet; freed_by_fstrim=$((before - $(occupied)))
  [ $doctor = "$truth" ] || verdict="WRONG: doctor should be $truth"
  # The guest's own writes vary by a few MiB.
  [ -z "${subject:-}" ] && [ $freed_by_trim -lt $((freed_by_fstrim - 12)) ] && verdict="WRONG: freed less than fstrim"
  printf '%-20s | doctor %s | trim %s freed %4s MiB | verify %s | fstrim freed %4s MiB | %s\n' "$1" $doctor $trim $freed_by_trim $verify $freed_by_fstrim "$verdict"
  { cat /tmp/doctor; echo "--- trim"; cat /tmp/trim; echo "--- verify"; cat /tmp/verify; } > "/host/detail/$1"
  after; clean
}

# Applies the remedy, through `doctor --fix` or by hand as printed, and undoes it.
mend() { # NAME
  local wanted_status wanted_steps wanted_undone status steps undone before freed=- proof=-
  reset; . "/host/stacks/$1"; [ -n "${mended:-}" ] || return
  read -r wanted_status wanted_steps wanted_undone <<< "$mended"
  clean; make > /tmp/make 2>&1 || { tail -n 3 /tmp/make; echo "$1: WRONG: it could not be made"; after > /dev/null 2>&1; clean; return; }
  if declare -f by_hand > /dev/null; then
    by_hand > /tmp/mend 2>&1; steps=by-hand
  else
    yes pw 2> /dev/null | $T doctor --fix --yes --reserve 1MB "${subject:-$M}" > /tmp/mend 2>&1; status=$?
    [ $status = "$wanted_status" ] || verdict="WRONG: --fix ended with $status"
    steps=$(grep -c '^done: ' /tmp/mend); proof=$(sed -n 's/^proof: //p' /tmp/mend | cut -c1-40)
  fi
  $T doctor "${subject:-$M}" > /tmp/doctor 2>&1; status=$?
  if [ -z "${subject:-}" ]; then
    # Measure before the deletion: online discard frees the files before fstrim does.
    write_some; before=$(occupied); rm $M/f?; sync -f $M; sync; fstrim $M > /tmp/fstrim 2>&1; quiet; freed=$((before - $(occupied)))
    [ $freed -ge 12 ] || verdict="WRONG: mended, and fstrim frees $freed MiB"
  fi
  also
  undone=-
  if [ $steps != by-hand ]; then
    yes pw 2> /dev/null | $T doctor --undo > /tmp/undo 2>&1 || verdict="WRONG: it could not be taken back"
    $T doctor "${subject:-$M}" > /tmp/doctor2 2>&1; undone=$?
  fi
  [ "$status $steps $undone" = "$wanted_status $wanted_steps $wanted_undone" ] || verdict="WRONG: should be $mended"
  after
  printf '%-20s | mended %-7s | doctor %s | fstrim freed %4s MiB | taken back: doctor %s | %s | %s\n' "$1" "$steps" $status "$freed" $undone "$proof${facts:+; $facts}" "$verdict"
  { cat /tmp/mend; echo "--- doctor"; cat /tmp/doctor; [ $undone = - ] || { echo "--- undo"; cat /tmp/undo /tmp/doctor2; }; } > "/host/detail/$1.mended"
  clean
}

# Runs the stack's own trial, which reports through `expect`.
trial_of() { # NAME
  reset; . "/host/stacks/$1"; declare -f trial > /dev/null || return
  clean; make > /tmp/make 2>&1 || { tail -n 3 /tmp/make; echo "$1: WRONG: it could not be made"; after > /dev/null 2>&1; clean; return; }
  rm -f /tmp/mend /tmp/undo /tmp/doctor; trial
  printf '%-20s | %s | %s\n' "$1" "$facts" "$verdict"
  for i in mend undo doctor; do echo "--- $i"; cat /tmp/$i 2> /dev/null; done > "/host/detail/$1.trial"
  after; clean
}

# Only records the tree of each stack and the doctor's output.
record() { # NAME
  local doctor; reset; . "/host/stacks/$1"; [ -n "${truth:-}" ] || return
  clean; make > /tmp/make 2>&1 || { tail -n 3 /tmp/make; echo "$1: WRONG: it could not be made"; after > /dev/null 2>&1; return; }
  $T doctor --record "/host/trees/$1" "${subject:-$M}" > "/host/detail/$1" 2>&1; doctor=$?
  [ $doctor = "$truth" ] || verdict="WRONG: doctor should be $truth"
  printf '%-20s | doctor %s | %s\n' "$1" $doctor "$verdict"
  after; clean
}
[ "${1:-}" != --record ] || { shift; for stack in "$@"; do record "$stack"; done; exit; }
[ "${1:-}" != --daemon ] || { . /tmp/lab/daemon.sh; exit; }
for stack in "$@"; do
  # Another machine may already run it.
  mkdir "/host/taken/$stack" 2> /dev/null || continue
  begun=$(cut -d. -f1 /proc/uptime)
  try "$stack"; mend "$stack"; trial_of "$stack"
  echo "$stack $(($(cut -d. -f1 /proc/uptime) - begun))" >> /host/seconds
done
