#!/bin/sh
# Stands in for nvme-cli and hdparm, and for a drive with all purges: DEVICE, whose state is
# in the directory STATE. The output has the form of nvme-cli 2.13 and hdparm 9.65.
device=DEVICE state=STATE
echo "$(basename "$0") $*" >> $state/commands
erase() { head -c $(blockdev --getsize64 $device) /dev/zero > $device; sync $device; }
case "$(basename "$0") $*" in
"nvme id-ctrl $device --output-format=json") echo '{"oacs":2,"fna":0,"sanicap":2}' ;;
"nvme list-ns $device") echo '[   0]:0x1' ;;
"nvme id-ns $device --output-format=json") echo '{"flbas":2,"dps":0}' ;;
"nvme format $device --ses=1 --force --timeout=14400000 --lbaf=2 --ms=0 --pi=0 --pil=0") erase ;;
"nvme sanitize $device --sanact=2 --force") echo 2 > $state/sanitize ;;
"nvme sanitize-log $device --output-format=json")
  echo "{\"loop0\":{\"sprog\":9000,\"sstat\":{\"status\":\"($(cat $state/sanitize)) text\"}}}"
  erase; echo 1 > $state/sanitize ;;
"hdparm -I $device")
  printf 'Security: \n\t\tsupported\n\t%s\tenabled\n\tnot\tlocked\n\tnot\tfrozen\n' "$([ -e $state/password ] || echo not)"
  printf '\t2min for SECURITY ERASE UNIT.\n' ;;
"hdparm --user-master u --security-set-pass "*) echo $4 > $state/password ;;
"hdparm --user-master u --security-erase "*)
  [ ! -e $state/broken ] && [ "$4" = "$(cat $state/password)" ] || { echo 'SECURITY_ERASE: I/O error' >&2; exit 5; }
  erase; rm $state/password ;;
"hdparm --user-master u --security-disable "*) [ "$4" = "$(cat $state/password)" ] && rm $state/password ;;
*) echo "unknown command" >&2; exit 22 ;;
esac
