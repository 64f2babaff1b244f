use super::*;

fn call(text: &str) -> Call {
    parse(text.split(' ')).unwrap()
}

#[test]
fn fstrim_arguments_are_those_of_util_linux() {
    let tables =
        |files: &[&str]| FstrimSubject::Tables(files.iter().map(|f| (*f).to_owned()).collect());
    for (text, subject) in [
        (
            "--listed-in /etc/fstab:/proc/self/mountinfo --verbose --quiet-unsupported",
            tables(&["/etc/fstab", "/proc/self/mountinfo"]),
        ),
        ("-I /etc/x", tables(&["/etc/x"])),
        ("-av", tables(&["/proc/self/mountinfo"])),
        ("-Av --quiet", tables(&["/etc/fstab"])),
        ("-v /srv", FstrimSubject::Directory("/srv".into())),
    ] {
        assert_eq!(call(text).subject, subject, "{text}");
    }
    assert!(call("-A --quiet").is_quiet && !call("-A").is_quiet);
    for text in
        ["-a -A", "-a /", "/ /home", "", "-x -a", "--listed-in", "-An", "-v $HOME", "-l 10G /"]
    {
        assert_eq!(parse(text.split(' ')), None, "{text}");
    }
}

/// The targets that fstrim trims, for a given table and mount table.
fn trimmed(fstab: &str, mounts: &str, arguments: &str) -> Vec<String> {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(tree.path().join("etc")).unwrap();
    std::fs::create_dir_all(tree.path().join("proc")).unwrap();
    std::fs::write(tree.path().join("etc/fstab"), fstab).unwrap();
    std::fs::write(tree.path().join("proc/cmdline"), "quiet root=/dev/sda2\n").unwrap();
    let root = Root::recorded(tree.path()).unwrap();
    let mounts = mountinfo::parse(mounts.as_bytes());
    let machine = Machine { root: &root, mounts: &mounts, visited: &VisitCache::new(&mounts) };
    visited(machine, &call(arguments))
}

/// The targets that a call trims.
fn visited(machine: Machine<'_>, call: &Call) -> Vec<String> {
    let FstrimSubject::Tables(files) = &call.subject else { panic!("{call:?}") };
    let visits = machine.table(files).unwrap().map(|(file, entries)| machine.fates(file, entries));
    let trimmed = visits.into_iter().flatten().filter(|visit| visit.skipped.is_none());
    trimmed.map(|visit| visit.entry.target.display().to_string()).collect()
}

const MOUNTS: &str = "27 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw\n\
    36 27 8:3 / /home rw,relatime - ext4 /dev/sda3 rw\n\
    37 27 8:4 / /srv ro,relatime - ext4 /dev/sda4 rw\n\
    38 27 8:3 /x /mnt rw,relatime - ext4 /dev/sda3 rw\n";

#[test]
fn fstrim_visits_mounts_of_a_table() {
    let fstab = "UUID=2 /home ext4 ro 0 2\nUUID=3 /home ext4 X-fstrim.notrim 0 2\n\
        UUID=4 /srv ext4 defaults 0 2\n/dev/sda9 none swap sw 0 0\n";
    assert_eq!(trimmed(fstab, MOUNTS, "-A"), ["/"]);
    let fstab = "/dev/sda4 /srv ext4 defaults 0 2\n/dev/sda4 /data ext4 defaults 0 2\n\
        /dev/sda2 / ext4 defaults 0 1\n";
    let mounts = format!("{MOUNTS}39 27 8:4 / /data rw,relatime - ext4 /dev/sda4 rw\n");
    assert_eq!(
        trimmed(fstab, &mounts, "-A"),
        ["/data", "/"],
        "the read-only duplicate hides no other line"
    );
    assert_eq!(trimmed("", &mounts, "-a"), ["/", "/home", "/data"]);
    assert!(trimmed("", &mounts, "-A").is_empty(), "an empty fstab stays empty");
}

#[test]
fn fstrim_skips_covered_and_duplicate_mounts() {
    let mounts = "27 1 8:2 / / rw - ext4 /dev/sda2 rw\n36 27 8:3 / /a/b rw - ext4 /dev/sda3 rw\n\
        37 27 8:4 / /a rw - ext4 /dev/sda4 rw\n38 27 8:2 /x /inner rw - ext4 /dev/sda2 rw\n\
        39 37 8:5 / /a/c rw - ext4 /dev/sda5 rw\n";
    assert_eq!(trimmed("", mounts, "-a"), ["/", "/a", "/a/c"]);
    assert_eq!(trimmed("/dev/sda3 /a/b ext4 defaults\n/x /inner ext4 bind\n", mounts, "-A"), ["/"]);
    let btrfs = "27 1 0:25 /@ / rw - btrfs /dev/sda2 rw,subvolid=256\n\
        36 27 0:25 /@home /home rw - btrfs /dev/sda2 rw,subvolid=257\n";
    // The root filesystem has the same source and comes later.
    assert_eq!(trimmed("UUID=1 /home btrfs subvol=@home\n", btrfs, "-A"), ["/home"]);
}

#[test]
fn fstrim_answer_for_covered_mount_names_the_cover() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(tree.path().join("etc")).unwrap();
    std::fs::write(tree.path().join("etc/fstab"), "/dev/sda2 /a ext4\n/dev/sda3 /a/b ext4\n")
        .unwrap();
    let root = Root::recorded(tree.path()).unwrap();
    let mounts = mountinfo::parse(
        b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /a rw - ext4 /dev/sda2 rw\n\
            3 2 8:3 / /a/b rw - ext4 /dev/sda3 rw\n4 2 0:40 / /a rw - tmpfs tmpfs rw\n\
            5 1 8:5 / /c rw - ext4 /dev/sda5 rw\n",
    );
    let machine = Machine { root: &root, mounts: &mounts, visited: &VisitCache::new(&mounts) };
    for (id, reason) in [
        (2, "another mount covers /a"),
        (3, "another mount covers /a/b"),
        (5, "it is not in /etc/fstab"),
    ] {
        let answer = machine.trims(&call("-A"), &|mount| mount.id == id);
        assert!(matches!(&answer, Answer::No(said) if said.text == reason), "{answer:?}");
    }
}

#[test]
fn fstrim_visits_are_computed_once_per_call() {
    let tree = tempfile::tempdir().unwrap();
    let root = Root::recorded(tree.path()).unwrap();
    let mounts = mountinfo::parse(
        b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /a rw - ext4 /dev/sda2 rw\n\
            3 1 8:2 / /b rw - ext4 /dev/sda2 rw\n",
    );
    let visited = VisitCache::new(&mounts);
    let machine = Machine { root: &root, mounts: &mounts, visited: &visited };
    let all = call("--all");
    let first = machine.visits(&all);
    assert_eq!(machine.trims(&all, &|mount| mount.id == 2), Answer::Yes);
    assert!(
        matches!(machine.trims(&all, &|mount| mount.id == 3), Answer::No(_)),
        "the first of its source counts"
    );
    assert!(Rc::ptr_eq(&first, &machine.visits(&all)));
    let other = machine.visits(&call("/a"));
    assert!(matches!(*other, Visits::Directory(Some(1))), "{other:?}");
}

#[test]
fn reached_returns_the_covering_mount() {
    let mounts = mountinfo::parse(
        b"1 0 8:1 / / rw - ext4 x rw\n2 1 8:2 / /a rw - ext4 x rw\n\
            3 2 8:3 / /a/b rw - ext4 x rw\n4 2 8:4 / /a rw - ext4 x rw\n\
            5 1 8:5 / /c rw - ext4 x rw\n",
    );
    let index = MountIndex::new(&mounts);
    let reached = |path: &str| index.reached(&mounts, Path::new(path)).map(|at| mounts[at].id);
    for (path, expected) in [("/a", 4), ("/a/b", 4), ("/c/x", 5), ("/d", 1)] {
        assert_eq!(reached(path), Some(expected), "{path}");
    }
}
