//! The doctor's verdict and remedy for kinds of storage that are easily misjudged, on
//! recorded trees.

use crate::support::trimtab;
use crate::sysroot::unpack;
use std::path::Path;
use trimtab_linux::doctor::{AcceptedFinding, Diagnosis, Doctor, trim_refusal};
use trimtab_linux::host::block::Stack;
use trimtab_linux::host::mountinfo;
use trimtab_linux::host::root::Root;

const NVME: &str = "/sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1";
const SATA: &str = "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda";
const USB: &str =
    "/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host4/target4:0:0/4:0:0:0/block/sdb";
const VIRTIO: &str = "/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda";
const TAKES: &str =
    "discard_granularity=512 discard_max_bytes=1073741824 discard_max_hw_bytes=1073741824";
const TAKES_NONE: &str = "discard_granularity=0 discard_max_bytes=0 discard_max_hw_bytes=0";

fn drive(directory: &str, dev: &str, queue: &str, more: &str) -> String {
    format!("disk {directory} {dev} 1000215216\nqueue {directory} {queue}\n{more}\n")
}

fn mounted(line: &str) -> String {
    format!("/proc/self/mountinfo = {line}\n/proc/sys/kernel/osrelease = 6.12.1\n")
}

fn nvme() -> String {
    drive(
        NVME,
        "259:0",
        &format!("{TAKES} rotational=0"),
        "/etc/fstab = /dev/nvme0n1 / ext4 defaults 0 1",
    )
}

fn diagnose(tree: &str, subject: &str) -> Diagnosis {
    let tree = unpack(tree);
    let root = Root::recorded(tree.path()).unwrap();
    Doctor::new(&root).unwrap().examine_path(Path::new(subject)).unwrap()
}

fn verdict(diagnosis: &Diagnosis) -> String {
    serde_json::to_value(diagnosis.verdict.kind).unwrap().as_str().unwrap().to_owned()
}

/// All steps of all remedies.
fn to_do(diagnosis: &Diagnosis) -> String {
    diagnosis.to_do.iter().map(|step| step.text().to_owned() + "\n").collect()
}

#[test]
fn fitrim_without_the_journal_is_blocked() {
    for (fs_type, options, release, expected) in [
        ("ext4", "ro,norecovery", "6.12.1", "blocked"),
        ("ext4", "ro,noload", "5.4.0", "blocked"),
        ("ext4", "rw,norecovery,discard", "6.12.1", "reaches"),
        ("xfs", "ro,norecovery", "6.12.1", "blocked"),
        ("btrfs", "ro,rescue=usebackuproot:nologreplay", "6.12.1", "blocked"),
        ("btrfs", "ro,rescue=usebackuproot", "6.12.1", "reaches"),
        ("gfs2", "ro,spectator", "6.12.1", "blocked"),
        ("ext4", "rw", "6.12.1", "reaches"),
    ] {
        let access = &options[..2];
        let tree = mounted(&format!(
            "27 1 259:0 / / {access},relatime - {fs_type} /dev/nvme0n1 {options}"
        ));
        let diagnosis =
            diagnose(&format!("{tree}/proc/sys/kernel/osrelease = {release}\n{}", nvme()), "/");
        assert_eq!(
            verdict(&diagnosis),
            expected,
            "{fs_type} {options} {release}: {}",
            diagnosis.verdict.text
        );
        let is_told = to_do(&diagnosis).contains("mount it again without");
        assert_eq!(is_told, expected != "reaches" || options.contains("norecovery"), "{options}");
    }
}

#[test]
fn usb_disk_that_hides_its_rotation_is_unknown() {
    let tree = |rotational: u8, name: [&str; 2], more: &str| {
        let device = format!(
            "{USB}/device/vendor = {}\n{USB}/device/model = {}\n\
                {USB}/device/scsi_disk/4:0:0:0/provisioning_mode = full\n{more}",
            name[0], name[1]
        );
        let line = mounted("27 1 8:16 / /media/d rw,relatime - ext4 /dev/sdb rw");
        line + &drive(USB, "8:16", &format!("{TAKES_NONE} rotational={rotational}"), &device)
    };
    for (rotational, name, more, expected) in [
        (1, ["WD", "Elements 25A2"], String::new(), "unknown"),
        (1, ["JMicron", "Generic"], format!("vpd {USB} none"), "unknown"),
        (1, ["CT500MX5", "00SSD1"], String::new(), "blocked"),
        (1, ["SanDisk", "Ultra"], format!("{USB}/removable = 1"), "blocked"),
        (0, ["JMicron", "Generic"], String::new(), "blocked"),
    ] {
        let diagnosis = diagnose(&tree(rotational, name, &more), "/media/d");
        assert_eq!(verdict(&diagnosis), expected, "{name:?}: {}", diagnosis.verdict.text);
        assert_eq!(
            to_do(&diagnosis).contains("smartctl --info /dev/sdb"),
            expected == "unknown",
            "{name:?}: {}",
            to_do(&diagnosis)
        );
        assert!(!to_do(&diagnosis).contains("asks this device for no page"));
    }
}

#[test]
fn ata_drive_without_the_attribute_trim_is_judged_by_limits() {
    let line = mounted("27 1 8:0 / / rw,relatime - ext4 /dev/sda rw");
    let tree = |queue: &str, mode: &str| {
        let mode = format!(
            "{SATA}/device/scsi_disk/0:0:0:0/provisioning_mode = {mode}\n\
                /etc/fstab = /dev/sda / ext4 defaults 0 1"
        );
        line.clone() + &drive(SATA, "8:0", &format!("{queue} rotational=0"), &mode)
    };
    let none = diagnose(&tree(TAKES_NONE, "full"), "/");
    assert_eq!(verdict(&none), "blocked");
    assert!(
        !none.verdict.text.contains("supports TRIM, but")
            && to_do(&none).contains("hdparm -I /dev/sda"),
        "{}",
        none.verdict.text
    );
    let stopped = diagnose(&tree(TAKES_NONE, "disabled"), "/");
    assert!(to_do(&stopped).contains("echo writesame_16"), "{}", to_do(&stopped));
    assert_eq!(verdict(&diagnose(&tree(TAKES, "writesame_16"), "/")), "reaches");
}

#[test]
fn pool_below_root_filesystem_is_changed_from_rescue_system() {
    let text = include_str!("../fixtures/sysroots/vm-thin-ignore.txt");
    let diagnosis = diagnose(&text.replace(" / /mnt/s rw", " / / rw"), "/");
    let todo = to_do(&diagnosis);
    assert!(
        todo.contains("rescue system")
            && todo.contains("vgchange -an vg\nlvchange --discards passdown vg/p"),
        "{todo}"
    );
    assert!(!todo.contains("umount"), "{todo}");
}

#[test]
fn parity_switch_that_was_set_late_asks_for_assembly() {
    let text = include_str!("../fixtures/sysroots/md-raid5.txt");
    let late =
        format!("{text}\n/sys/module/raid456/parameters/devices_handle_discard_safely = Y\n");
    let subject = text.lines().find_map(|line| line.strip_prefix("# expect subject: ")).unwrap();
    let diagnosis = diagnose(&late, subject);
    assert_eq!(verdict(&diagnosis), "blocked");
    assert!(to_do(&diagnosis).contains("mdadm --assemble --scan"), "{}", to_do(&diagnosis));
}

#[test]
fn doctor_names_file_that_keeps_the_mount_option() {
    for (point, more, expected, not) in [
        ("/srv", "", "/srv in /etc/fstab", "StorageClass"),
        (
            "/var/lib/kubelet/pods/a1/volumes/kubernetes.io~csi/pvc-2/mount",
            "",
            "StorageClass",
            "/etc/fstab",
        ),
        ("/run/media/ann/stick", "", "mount_options.conf", "/etc/fstab"),
        ("/media/ann/stick", "", "mount_options.conf", "/etc/fstab"),
        (
            "/media/disk",
            "/run/mount/utab = SRC=/dev/nvme0n1 TARGET=/media/disk OPTS=uhelper=udisks2",
            "mount_options.conf",
            "/etc/fstab",
        ),
        ("/media/disk", "", "/etc/fstab", "udisks"),
        (
            "/run/media/ann/stick",
            "/etc/fstab = /dev/nvme0n1 /run/media/ann/stick btrfs defaults 0 2",
            "/etc/fstab",
            "udisks",
        ),
    ] {
        let line = mounted(&format!("27 1 259:0 / {point} rw - btrfs /dev/nvme0n1 rw,discard"));
        let todo = to_do(&diagnose(&format!("{line}{}{more}\n", nvme()), point));
        assert!(todo.contains(expected) && !todo.contains(not), "{point}: {todo}");
    }
}

#[test]
fn covered_mount_gets_no_advice() {
    let line = mounted(
        "27 1 8:1 / / rw,relatime - ext4 /dev/x rw\\n28 27 259:0 / /srv rw - ext4 \
            /dev/nvme0n1 rw\\n29 28 0:40 / /srv rw - tmpfs tmpfs rw",
    );
    let tree = unpack(&(line + &nvme()));
    let root = Root::recorded(tree.path()).unwrap();
    let survey = Doctor::new(&root).unwrap().survey();
    let covered = survey.diagnoses.iter().find(|one| one.subject == "/srv").unwrap();
    assert!(covered.to_do.is_empty() && covered.fix.is_none(), "{}", to_do(covered));
    assert!(covered.mechanisms.iter().any(|finding| finding.code == "fs.covered"));
}

#[test]
fn detached_header_and_key_file_need_a_person() {
    let text = include_str!("../fixtures/sysroots/luks-without-discards.txt");
    let subject = text.lines().find_map(|line| line.strip_prefix("# expect subject: ")).unwrap();
    let name = text.lines().find_map(|line| line.split("/dm/name = ").nth(1)).unwrap();
    let tree =
        format!("{text}\n/etc/crypttab = {name} /dev/x /etc/keys/k luks,header=/boot/header\n");
    let diagnosis = diagnose(&tree, subject);
    let todo = to_do(&diagnosis);
    assert!(todo.contains(&format!("refresh {name}, with the header")), "{todo}");
    assert_eq!(diagnosis.fix, None, "nobody can be asked for what the header holds");
}

#[test]
fn virtio_disk_is_of_the_hypervisor_that_the_firmware_names() {
    for (more, expected) in [
        ("", "the hypervisor does not offer"),
        (
            "/sys/class/dmi/id/sys_vendor = Cloud Hypervisor",
            "let the hypervisor offer discards for this disk",
        ),
        ("/sys/class/dmi/id/sys_vendor = QEMU", "the host (QEMU) does not offer"),
        (
            "/sys/class/dmi/id/sys_vendor = QEMU\n/sys/class/dmi/id/product_version = pc-q35-9.0",
            "discard='unmap' on the disk (QEMU 4.0",
        ),
    ] {
        let line = mounted("27 1 254:0 / / rw,relatime - ext4 /dev/vda rw");
        let diagnosis = diagnose(
            &(line + &drive(VIRTIO, "254:0", &format!("{TAKES_NONE} rotational=1"), more)),
            "/",
        );
        assert_eq!(verdict(&diagnosis), "blocked");
        let said = format!("{}\n{}", diagnosis.verdict.text, to_do(&diagnosis));
        assert!(said.contains(expected), "{more}: {said}");
    }
}

#[test]
fn xfs_is_judged_with_its_realtime_device() {
    let usb = |queue: &str| drive(USB, "8:16", &format!("{queue} rotational=0"), "");
    let line = "27 1 259:0 / / rw,relatime - xfs /dev/nvme0n1 rw,rtdev=/dev/sdb";
    for (queue, release, expected) in [
        (TAKES_NONE, "6.12.1", "blocked"),
        (TAKES, "6.12.1", "reaches"),
        (TAKES, "6.6.0", "blocked"),
    ] {
        let tree = format!(
            "{}/proc/sys/kernel/osrelease = {release}\n{}{}",
            mounted(line),
            nvme(),
            usb(queue)
        );
        let diagnosis = diagnose(&tree, "/");
        assert_eq!(verdict(&diagnosis), expected, "{release}: {}", diagnosis.verdict.text);
        assert!(
            expected == "blocked" || diagnosis.verdict.reaches.len() == 2,
            "{}",
            diagnosis.verdict.text
        );
    }
}

#[test]
fn filesystem_on_raw_flash_needs_no_trim() {
    for (fs_type, source, dev) in
        [("ubifs", "ubi0:data", "0:20"), ("jffs2", "/dev/mtdblock3", "31:3")]
    {
        let line = mounted(&format!("27 1 {dev} / /data rw,relatime - {fs_type} {source} rw"));
        let flash = drive("/sys/devices/virtual/mtd/mtd3/mtdblock3", "31:3", TAKES_NONE, "");
        let diagnosis = diagnose(&(line + &flash), "/data");
        assert_eq!(verdict(&diagnosis), "not-needed", "{fs_type}: {}", diagnosis.verdict.text);
    }
}

#[test]
fn doctor_in_container_does_not_advise_the_daemon() {
    let line = mounted("27 1 259:0 / / rw,relatime - ext4 /dev/nvme0n1 rw");
    let todo = to_do(&diagnose(&format!("{line}{}\n/run/.containerenv = engine\n", nvme()), "/"));
    assert!(
        todo.contains("on the host of the container")
            && !todo.contains("trimtab apply")
            && !todo.contains("systemctl"),
        "{todo}"
    );
}

/// The mechanisms' findings: code and text.
fn found(diagnosis: &Diagnosis) -> Vec<(&'static str, String)> {
    diagnosis.mechanisms.iter().map(|finding| (finding.code, finding.text.clone())).collect()
}

#[test]
fn container_filesystem_may_be_trimmed_by_the_host() {
    let line = mounted(
        "27 1 259:0 / /data rw,relatime - ext4 /dev/nvme0n1 rw\\n28 1 0:40 / / rw - \
            overlay overlay rw",
    );
    let said = found(&diagnose(&format!("{line}{}\n/.dockerenv = \n", nvme()), "/data"));
    assert!(
        said.iter()
            .any(|(code, text)| *code == "nothing-trims" && text.ends_with("; the host may")),
        "{said:?}"
    );
}

#[test]
fn docker_mark_on_own_root_filesystem_is_no_container() {
    let line = mounted("27 1 259:0 / / rw,relatime - ext4 /dev/nvme0n1 rw");
    let diagnosis = diagnose(&format!("{line}{}\n/.dockerenv = \n", nvme()), "/");
    let said = found(&diagnosis);
    assert!(
        said.iter().any(|(_, text)| text
            == "neither online discard, fstrim.timer nor trimtab trims this filesystem"),
        "{said:?}"
    );
    assert!(!to_do(&diagnosis).contains("host of the container"), "{}", to_do(&diagnosis));
}

#[test]
fn trimtab_service_trims_configured_filesystems_only() {
    let unit = "/usr/lib/systemd/system/trimtab.service = \
        [Service]\\nExecStart=/usr/bin/trimtab daemon\n\
        /etc/systemd/system/multi-user.target.wants/trimtab.service -> \
        /usr/lib/systemd/system/trimtab.service\n";
    let line = mounted("27 1 259:0 / / rw,relatime - ext4 /dev/nvme0n1 rw");
    for (config, expected) in [
        ("", false),
        ("[[filesystem]]\\npath = \"/\"\\npolicy = \"idle\"", true),
        ("[[filesystem]]\\npath = \"/\"\\npolicy = \"none\"", false),
        ("[[filesystem]]\\npath = \"/srv\"\\npolicy = \"idle\"", false),
        ("[default]\\npolicy = \"batched\"", true),
        ("[default]\\npolicy = 7", false),
    ] {
        let tree =
            unpack(&format!("{line}{}\n{unit}/etc/trimtab/trimtab.toml = {config}\n", nvme()));
        let output = trimtab()
            .args(["doctor", "/", "--json", "--sysroot"])
            .arg(tree.path())
            .output()
            .unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let by = &document["diagnoses"][0]["trimmed_by"];
        assert_eq!(*by == serde_json::json!(["trimtab.service"]), expected, "{config}: {by}");
    }
}

#[test]
fn configured_daemon_that_no_unit_starts_is_named() {
    let line = mounted("27 1 259:0 / / rw,relatime - ext4 /dev/nvme0n1 rw");
    let config = "[[filesystem]]\\npath = \"/\"\\npolicy = \"idle\"";
    let tree = unpack(&format!("{line}{}\n/etc/trimtab/trimtab.toml = {config}\n", nvme()));
    let done = trimtab().args(["doctor", "/", "--json", "--sysroot"]).arg(tree.path()).output();
    let document: serde_json::Value = serde_json::from_slice(&done.unwrap().stdout).unwrap();
    let mechanisms = document["diagnoses"][0]["mechanisms"].as_array().unwrap();
    let finding = mechanisms.iter().find(|finding| finding["code"] == "nothing-trims").unwrap();
    let said = finding["text"].as_str().unwrap();
    assert!(said.ends_with("trimtab is configured to, but no systemd unit starts it"), "{said}");
    let remedy = finding["remedy"].as_str().unwrap();
    assert!(remedy.starts_with("systemctl enable --now trimtab.service"), "{remedy}");
    assert!(!remedy.contains("apply"), "{remedy}");
}

#[test]
fn container_filesystem_is_not_named_by_its_hosts_file() {
    let line = mounted(
        "27 1 0:40 / / rw - overlay overlay rw\\n28 27 259:0 /c/1/hosts /etc/hosts \
            rw - ext4 /dev/nvme0n1 rw\\n29 27 259:0 /volumes/data /data rw - ext4 \
            /dev/nvme0n1 rw",
    );
    for (line, expected) in [
        (line.clone(), "/data"),
        (line.split("\\n29").next().unwrap().to_owned() + "\n", "/dev/nvme0n1"),
    ] {
        let tree = unpack(&(line + &nvme()));
        let survey = Doctor::new(&Root::recorded(tree.path()).unwrap()).unwrap().survey();
        let subjects: Vec<&str> = survey.diagnoses.iter().map(|one| one.subject.as_str()).collect();
        assert_eq!(subjects, [expected]);
    }
}

#[test]
fn doctor_of_unusable_tree_names_a_valid_argument() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("used"), "").unwrap();
    for (option, expected) in
        [("--sysroot", "is not a recorded tree"), ("--record", "name a new directory")]
    {
        let output = trimtab().args(["doctor", option]).arg(directory.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains(expected) && said.lines().count() <= 2 && !output.status.success(),
            "{option}: {said}"
        );
    }
}

#[test]
fn trim_of_vdo_is_blocked_but_gives_space_back() {
    let text = include_str!("../fixtures/sysroots/dm-vdo.txt");
    let diagnosis = diagnose(text, "/");
    assert_eq!(verdict(&diagnosis), "blocked");
    assert!(
        diagnosis.verdict.text.ends_with("a trim gives space back to VDO"),
        "{}",
        diagnosis.verdict.text
    );
    assert!(
        to_do(&diagnosis).contains("trimtab apply idle /"),
        "what trims it is not in vain: {}",
        to_do(&diagnosis)
    );
}

/// An SD card by manufacturer, OEM and name, and what its queue says of discards.
fn card(ids: [&str; 3], queue: &str) -> String {
    const CARD: &str = "/sys/devices/platform/soc/mmc_host/mmc0/mmc0:aaaa/block/mmcblk0";
    let ids = format!(
        "{CARD}/device/manfid = {}\n{CARD}/device/oemid = {}\n{CARD}/device/name = {}\n",
        ids[0], ids[1], ids[2]
    );
    mounted("27 1 179:0 / / rw,relatime - ext4 /dev/mmcblk0 rw")
        + &drive(CARD, "179:0", &format!("{queue} rotational=0"), &ids)
}

#[test]
fn card_that_loses_data_is_serious_until_discards_are_off() {
    let (bad, good) = (["0x000041", "0x3432", "SD32G"], ["0x000041", "0x4247", "SD32G"]);
    let off = "discard_granularity=4096 discard_max_bytes=0 discard_max_hw_bytes=1073741824";
    for (ids, queue, is_bad) in [(bad, TAKES, true), (good, TAKES, false), (bad, off, false)] {
        let tree = unpack(&card(ids, queue));
        let root = Root::recorded(tree.path()).unwrap();
        let doctor = Doctor::new(&root).unwrap();
        let diagnosis = doctor.examine_path(Path::new("/")).unwrap();
        let findings = &diagnosis.layers[0].findings;
        assert_eq!(
            findings.iter().any(|f| f.code == "drive.trim-loses-data"),
            is_bad,
            "{ids:?} {queue}: {findings:?}"
        );
        assert_eq!(diagnosis.exit_status(), if is_bad || queue == off { 3 } else { 0 });
        let steps = to_do(&diagnosis);
        assert_eq!(steps.contains("echo 0 > /sys/"), is_bad, "{steps}");
        assert!(
            !is_bad || !steps.contains("fstrim.timer") && !steps.contains("trimtab apply"),
            "{steps}"
        );
        let screen =
            trimtab().args(["doctor", "/", "--sysroot"]).arg(tree.path()).output().unwrap().stdout;
        let screen =
            String::from_utf8(screen).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(screen.contains("; read the serious finding above first"), is_bad, "{screen}");
        assert_eq!(screen.contains("verdict: TRIM reaches"), queue == TAKES, "{screen}");
    }
}

#[test]
fn apply_refuses_to_trim_a_card_that_loses_data() {
    let (bad, good) = (["0x000041", "0x3432", "SD32G"], ["0x000041", "0x4247", "SD32G"]);
    for (ids, policy, refused) in
        [(bad, "online", true), (bad, "idle", true), (bad, "none", false), (good, "online", false)]
    {
        let tree = unpack(&(card(ids, TAKES) + "/etc/fstab = /dev/mmcblk0 / ext4 defaults 0 1\n"));
        let output =
            trimtab().args(["apply", policy, "/", "--sysroot"]).arg(tree.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            said.contains(" to /: mmcblk0 (SD32G) is known to lose data"),
            refused,
            "{ids:?} {policy}: {said}"
        );
        assert_eq!(output.status.success(), !refused, "{ids:?} {policy}: {said}");
    }
}

#[test]
fn refusal_of_a_harmful_drive_ends_with_an_accepted_finding() {
    let tree = unpack(&card(["0x000041", "0x3432", "SD32G"], TAKES));
    let root = Root::recorded(tree.path()).unwrap();
    let mounts = mountinfo::read(&root).unwrap();
    let stack = Stack::of_mount(&root, &mounts, &mounts[0]);
    let refusal = |accepted: &[&str]| {
        let accepted: Vec<AcceptedFinding> =
            accepted.iter().map(|text| text.parse().unwrap()).collect();
        trim_refusal(&root, &mounts[0], &stack, &accepted)
    };
    for accepted in [&[][..], &["drive.trim-hangs"], &["drive.trim-loses-data:/srv"]] {
        let why = refusal(accepted).unwrap();
        assert!(
            why.starts_with("mmcblk0 (SD32G) is known to lose data") && why.contains("https://"),
            "{why}"
        );
    }
    assert_eq!(refusal(&["drive.trim-loses-data:/"]), None);
    assert_eq!(refusal(&["drive.trim-loses-data"]), None);
}
