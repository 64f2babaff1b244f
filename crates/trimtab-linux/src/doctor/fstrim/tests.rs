use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

#[test]
fn fstrim_arguments_parse_like_getopt() {
    let tables = |files: &[&str]| FstrimSubject::Tables(files.iter().map(|f| (*f).to_owned()).collect());
    let call = |text: &str| match parse(&words(text), Release::V2_39) {
        FstrimParseResult::Call(call) => call,
        other => panic!("{text}: {other:?}"),
    };
    for (text, subject) in [
        ("--listed-in /etc/fstab:/proc/self/mountinfo --verbose --quiet-unsupported", tables(&["/etc/fstab", "/proc/self/mountinfo"])),
        ("--listed-in=/etc/x -v", tables(&["/etc/x"])),
        ("-I/etc/x", tables(&["/etc/x"])),
        ("--list /etc/x", tables(&["/etc/x"])),
        ("-av", tables(&["/proc/self/mountinfo"])),
        ("-Av --quiet", tables(&["/etc/fstab"])),
        ("-v -m 1M /srv", FstrimSubject::Directory("/srv".into())),
        ("-m1M -- /srv", FstrimSubject::Directory("/srv".into())),
    ] {
        assert_eq!(call(text).subject, subject, "{text}");
    }
    assert_eq!(call("-A -t noext4,xfs").types.as_deref(), Some("noext4,xfs"));
    assert!(call("-A --quiet").is_quiet && call("-l 10G /").in_part && !call("-m 10G /").in_part);
    for (text, release) in [
        ("-aA", Release::V2_39),
        ("-a /", Release::V2_39),
        ("/ /home", Release::V2_39),
        ("", Release::V2_39),
        ("--verb=1 /", Release::V2_39),
        ("--nothing -a", Release::V2_39),
        ("-x -a", Release::V2_39),
        ("--listed-in", Release::V2_39),
        ("--types ext4 -a", Release::V2_38),
        ("--listed-in /etc/fstab", Release::V2_34),
        ("--quiet -A", Release::V2_33),
    ] {
        assert!(matches!(parse(&words(text), release), FstrimParseResult::Fails(_)), "{text}");
    }
    for text in ["-An", "--dry-run -a", "--help", "-V /"] {
        assert!(matches!(parse(&words(text), Release::V2_39), FstrimParseResult::Idle(_) | FstrimParseResult::Fails(_)), "{text}");
    }
}

#[test]
fn type_list_matches_like_libmount() {
    for (fs_type, pattern, expected) in [
        ("ext4", "ext4,xfs", true),
        ("btrfs", "ext4,xfs", false),
        ("ext4", "noext4,xfs", false),
        ("xfs", "noext4,xfs", false),
        ("btrfs", "noext4,xfs", true),
        ("ext4", "xfs,noext4", false),
        ("auto", "ext4", false),
        ("EXT4", "ext4", true),
    ] {
        assert_eq!(matches_type(fs_type, pattern), expected, "{fs_type} {pattern}");
    }
}

#[test]
fn release_is_read_from_fstrim_version_and_unit() {
    let tree = tempfile::tempdir().unwrap();
    let root = Root::recorded(tree.path()).unwrap();
    for (command, release) in [
        (Some("/sbin/fstrim -Av"), Release::V2_33),
        (Some("/usr/sbin/fstrim --fstab --verbose --quiet"), Release::V2_34),
        (Some("/sbin/fstrim --listed-in /etc/fstab:/proc/self/mountinfo --verbose --quiet-unsupported"), Release::V2_39),
        (None, Release::V2_39),
    ] {
        assert_eq!(Release::read(&root, command), release, "{command:?}");
    }
    for (output, release) in [
        ("2.33.1", Release::V2_33),
        ("2.37.4", Release::V2_36),
        ("2.38", Release::V2_38),
        ("2.38.1", Release::V2_38_1),
        ("2.41-rc2", Release::V2_39),
        ("3.0", Release::V2_39),
    ] {
        assert_eq!(Release::parse(&format!("fstrim from util-linux {output}\n")), Some(release), "{output}");
    }
}

/// The targets that a release trims, for a given table and mount table.
fn trimmed(release: Release, fstab: &str, mounts: &str, arguments: &str) -> Vec<String> {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(tree.path().join("etc")).unwrap();
    std::fs::create_dir_all(tree.path().join("proc")).unwrap();
    std::fs::write(tree.path().join("etc/fstab"), fstab).unwrap();
    std::fs::write(tree.path().join("proc/cmdline"), "quiet root=/dev/sda2\n").unwrap();
    let root = Root::recorded(tree.path()).unwrap();
    let mounts = mountinfo::parse(mounts.as_bytes());
    let machine = Machine { root: &root, mounts: &mounts, visited: &VisitCache::new(&mounts), release };
    let FstrimParseResult::Call(call) = parse(&words(arguments), release) else { panic!("{arguments}") };
    visited(machine, &call)
}

/// The targets that a call trims.
fn visited(machine: Machine<'_>, call: &Call) -> Vec<String> {
    let FstrimSubject::Tables(files) = &call.subject else { panic!("{call:?}") };
    let visits = machine.table(files).unwrap().map(|(file, entries)| machine.fates(file, entries, call.types.as_deref()));
    let trimmed = visits.into_iter().flatten().filter(|visit| visit.skipped.is_none());
    trimmed.map(|visit| visit.entry.target.display().to_string()).collect()
}

const MOUNTS: &str = "27 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw\n36 27 8:3 / /home rw,relatime - ext4 /dev/sda3 rw\n\
                      37 27 8:4 / /srv ro,relatime - ext4 /dev/sda4 rw\n38 27 8:3 /x /mnt rw,relatime - ext4 /dev/sda3 rw\n";

#[test]
fn fstrim_visits_mounts_as_each_release_does() {
    let fstab =
        "UUID=2 /home ext4 ro 0 2\nUUID=3 /home ext4 X-fstrim.notrim 0 2\nUUID=4 /srv ext4 defaults 0 2\n/dev/sda9 none swap sw 0 0\n";
    for (release, expected) in
        [(Release::V2_33, &["/home", "/srv"][..]), (Release::V2_34, &["/home", "/"]), (Release::V2_38, &["/"]), (Release::V2_39, &["/"])]
    {
        assert_eq!(trimmed(release, fstab, MOUNTS, "-A"), expected, "{release:?}");
    }
    // A preceding read-only duplicate hides the other line only in releases that remove
    // duplicates first.
    let fstab = "/dev/sda4 /srv ext4 defaults 0 2\n/dev/sda4 /data ext4 defaults 0 2\n/dev/sda2 / ext4 defaults 0 1\n";
    let mounts = format!("{MOUNTS}39 27 8:4 / /data rw,relatime - ext4 /dev/sda4 rw\n");
    assert_eq!(trimmed(Release::V2_38, fstab, &mounts, "-A"), ["/"]);
    assert_eq!(trimmed(Release::V2_38_1, fstab, &mounts, "-A"), ["/data", "/"]);
    assert_eq!(trimmed(Release::V2_39, fstab, &mounts, "-A"), ["/data", "/"]);
    assert_eq!(trimmed(Release::V2_39, fstab, &mounts, "-A -t noxfs"), ["/data", "/"]);
    assert_eq!(trimmed(Release::V2_39, "", &mounts, "-a"), ["/", "/home", "/data"]);
    assert!(trimmed(Release::V2_39, "", &mounts, "-A").is_empty(), "an empty fstab stays empty");
}

#[test]
fn fstrim_skips_covered_and_duplicate_mounts() {
    let mounts = "27 1 8:2 / / rw - ext4 /dev/sda2 rw\n36 27 8:3 / /a/b rw - ext4 /dev/sda3 rw\n37 27 8:4 / /a rw - ext4 /dev/sda4 rw\n\
                  38 27 8:2 /x /inner rw - ext4 /dev/sda2 rw\n39 37 8:5 / /a/c rw - ext4 /dev/sda5 rw\n";
    assert_eq!(trimmed(Release::V2_39, "", mounts, "-a"), ["/", "/a", "/a/c"]);
    assert_eq!(trimmed(Release::V2_39, "/dev/sda3 /a/b ext4 defaults\n/x /inner ext4 bind\n", mounts, "-A"), ["/"]);
    let btrfs = "27 1 0:25 /@ / rw - btrfs /dev/sda2 rw,subvolid=256\n36 27 0:25 /@home /home rw - btrfs /dev/sda2 rw,subvolid=257\n";
    // The root filesystem has the same source and comes later.
    assert_eq!(trimmed(Release::V2_39, "UUID=1 /home btrfs subvol=@home\n", btrfs, "-A"), ["/home"]);
}

#[test]
fn fstrim_answer_for_covered_mount_names_the_cover() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(tree.path().join("etc")).unwrap();
    std::fs::write(tree.path().join("etc/fstab"), "/dev/sda2 /a ext4\n/dev/sda3 /a/b ext4\n").unwrap();
    let root = Root::recorded(tree.path()).unwrap();
    let mounts = mountinfo::parse(
        b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /a rw - ext4 /dev/sda2 rw\n3 2 8:3 / /a/b rw - ext4 /dev/sda3 rw\n\
          4 2 0:40 / /a rw - tmpfs tmpfs rw\n5 1 8:5 / /c rw - ext4 /dev/sda5 rw\n",
    );
    let machine = Machine { root: &root, mounts: &mounts, visited: &VisitCache::new(&mounts), release: Release::V2_39 };
    for (id, reason) in [(2, "another mount covers /a"), (3, "another mount covers /a/b"), (5, "it is not in /etc/fstab")] {
        let answer = machine.trims(&Call::of_fstab(), &|mount| mount.id == id);
        assert!(matches!(&answer, Answer::No(said) if said.text == reason), "{answer:?}");
    }
}

#[test]
fn fstrim_minimum_above_ext4_group_gives_maybe() {
    let tree = tempfile::tempdir().unwrap();
    let root = Root::recorded(tree.path()).unwrap();
    let mounts = mountinfo::parse(b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /a rw - xfs /dev/sda2 rw\n");
    let machine = Machine { root: &root, mounts: &mounts, visited: &VisitCache::new(&mounts), release: Release::V2_39 };
    for (arguments, is_certain) in [
        ("-m 128M /", true),
        ("-m 128MiB /", true),
        ("-m 134217729 /", false),
        ("-am 1G", false),
        ("--minimum=135MB /", false),
        ("-m 1G /a", true),
    ] {
        let FstrimParseResult::Call(call) = parse(&words(arguments), Release::V2_39) else { panic!("{arguments}") };
        let id = if arguments.ends_with("/a") { 2 } else { 1 };
        let answer = machine.trims(&call, &|mount| mount.id == id);
        assert!(if is_certain { answer == Answer::Yes } else { matches!(answer, Answer::Maybe(_)) }, "{arguments}: {answer:?}");
    }
    assert!(matches!(parse(&words("-m 1X /"), Release::V2_39), FstrimParseResult::Fails(_)));
}

#[test]
fn fstrim_visits_are_computed_once_per_call() {
    let tree = tempfile::tempdir().unwrap();
    let root = Root::recorded(tree.path()).unwrap();
    let mounts =
        mountinfo::parse(b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /a rw - ext4 /dev/sda2 rw\n3 1 8:2 / /b rw - ext4 /dev/sda2 rw\n");
    let visited = VisitCache::new(&mounts);
    let machine = Machine { root: &root, mounts: &mounts, visited: &visited, release: Release::V2_39 };
    let FstrimParseResult::Call(all) = parse(&words("--all"), Release::V2_39) else { panic!() };
    let first = machine.visits(&all);
    assert_eq!(machine.trims(&all, &|mount| mount.id == 2), Answer::Yes);
    assert!(matches!(machine.trims(&all, &|mount| mount.id == 3), Answer::No(_)), "the first of its source counts");
    assert!(Rc::ptr_eq(&first, &machine.visits(&all)));
    let other = machine.visits(&Call::of_directory("/a"));
    assert!(matches!(*other, Visits::Directory(Some(1))), "{other:?}");
}

#[test]
fn reached_returns_the_covering_mount() {
    let mounts = mountinfo::parse(
        b"1 0 8:1 / / rw - ext4 x rw\n2 1 8:2 / /a rw - ext4 x rw\n3 2 8:3 / /a/b rw - ext4 x rw\n4 2 8:4 / /a rw - ext4 x rw\n5 1 8:5 / /c rw - ext4 x rw\n",
    );
    let index = MountIndex::new(&mounts);
    let reached = |path: &str| index.reached(&mounts, Path::new(path)).map(|at| mounts[at].id);
    for (path, expected) in [("/a", 4), ("/a/b", 4), ("/c/x", 5), ("/d", 1)] {
        assert_eq!(reached(path), Some(expected), "{path}");
    }
}
