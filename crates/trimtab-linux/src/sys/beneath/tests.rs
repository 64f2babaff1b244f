use super::*;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

fn scratch() -> (tempfile::TempDir, Dir) {
    let directory = tempfile::tempdir().unwrap();
    let dir = Dir::open(directory.path()).unwrap();
    (directory, dir)
}

fn shared() -> (tempfile::TempDir, Dir) {
    let (directory, dir) = scratch();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    (directory, dir)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn dir_refuses_names_that_are_not_one_component() {
    let (_directory, dir) = scratch();
    for name in ["", ".", "..", "a/b", "/etc/passwd", "../x", "a\0b"] {
        assert!(dir.create_new(name, 0o600).is_err(), "{name:?}");
        assert!(dir.mkdir(name).is_err(), "{name:?}");
        assert!(dir.open_read(name).is_err(), "{name:?}");
        assert!(dir.open_dir(name).is_err(), "{name:?}");
        assert!(dir.look(name).is_err(), "{name:?}");
        assert!(dir.write_atomically(name, 0o600, |_| Ok(())).is_err(), "{name:?}");
    }
}

#[test]
fn dir_creates_and_opens_without_following_links() {
    let (directory, dir) = scratch();
    let outside = tempfile::tempdir().unwrap();
    let canary = outside.path().join("canary");
    fs::write(&canary, "precious").unwrap();
    symlink(&canary, directory.path().join("link")).unwrap();
    symlink(outside.path().join("new"), directory.path().join("nowhere")).unwrap();
    symlink(outside.path(), directory.path().join("dir")).unwrap();
    for name in ["link", "nowhere", "dir"] {
        assert!(dir.create_new(name, 0o600).is_err(), "{name}");
        assert!(dir.open_or_create(name, 0o600).is_err(), "{name}");
        assert!(dir.open_read(name).is_err(), "{name}");
        assert!(dir.open_write(name).is_err(), "{name}");
        assert!(dir.open_dir(name).is_err(), "{name}");
        assert!(dir.mkdir(name).is_err(), "{name}");
    }
    dir.write_atomically("link", 0o600, |file| file.write_all(b"ours")).unwrap();
    assert_eq!(fs::read_to_string(directory.path().join("link")).unwrap(), "ours");
    assert_eq!(fs::read_to_string(&canary).unwrap(), "precious");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn open_of_fifo_is_refused_without_blocking() {
    let (directory, dir) = scratch();
    rustix::fs::mknodat(CWD, directory.path().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert!(dir.open_read("pipe").is_err() && dir.open_write("pipe").is_err());
}

#[test]
fn write_atomically_leaves_old_or_new_file_only() {
    let (directory, dir) = scratch();
    dir.write_atomically("file", 0o600, |file| file.write_all(b"old")).unwrap();
    dir.write_atomically("file", 0o644, |_| Err(io::Error::other("full"))).unwrap_err();
    let read = || fs::read_to_string(directory.path().join("file")).unwrap();
    assert_eq!((read().as_str(), mode(&directory.path().join("file"))), ("old", 0o600));
    dir.write_atomically("file", 0o640, |file| file.write_all(b"new")).unwrap();
    assert_eq!((read().as_str(), mode(&directory.path().join("file"))), ("new", 0o640));
    assert_eq!(dir.names().unwrap(), ["file"]);
    // The path taken on filesystems without unnamed files.
    let (_, name) = dir.new_temporary(OsStr::new("file")).unwrap();
    assert!(name.to_str().unwrap().starts_with(".file."));
}

#[test]
fn open_or_create_reports_whether_it_created() {
    let (_directory, dir) = scratch();
    let (mut file, made) = dir.open_or_create("f", 0o600).unwrap();
    assert!(made);
    file.write_all(b"x").unwrap();
    let (mut again, made) = dir.open_or_create("f", 0o600).unwrap();
    assert!(!made);
    let mut text = String::new();
    again.read_to_string(&mut text).unwrap();
    assert_eq!(text, "x");
}

#[test]
fn remove_keeps_file_that_replaced_the_open_one() {
    for (directory, dir) in [scratch(), shared()] {
        let at = |name: &str| directory.path().join(name);
        let work = dir.mkdir("work").unwrap();
        work.create_new("file", 0o600).unwrap();
        work.mkdir("inner").unwrap().create_new("x", 0o600).unwrap();
        // Another process puts a different directory there.
        fs::rename(at("work"), at("moved")).unwrap();
        fs::create_dir(at("work")).unwrap();
        fs::write(at("work/precious"), "x").unwrap();
        assert_eq!(dir.remove_tree("work", &work).unwrap(), Removal::Foreign(at("work")));
        assert!(at("work/precious").exists());
        assert_eq!(
            fs::read_dir(at("moved")).unwrap().count(),
            0,
            "what was ours is gone, wherever it is"
        );
        assert_eq!(dir.remove_tree("moved", &work).unwrap(), Removal::Done);
        assert_eq!(dir.remove_tree("moved", &work).unwrap(), Removal::Absent);

        let file = dir.create_new("file", 0o600).unwrap();
        fs::rename(at("file"), at("elsewhere")).unwrap();
        fs::write(at("file"), "precious").unwrap();
        assert_eq!(dir.remove_file("file", &file).unwrap(), Removal::Foreign(at("file")));
        assert_eq!(dir.remove_file("elsewhere", &file).unwrap(), Removal::Done);
        assert_eq!(dir.names().unwrap(), ["file", "work"], "no private place stays");
    }
}

#[test]
fn remove_in_restores_file_swapped_during_removal() {
    let (directory, dir) = shared();
    let (at, held) = (directory.path().join("f"), dir.create_new("other", 0o600).unwrap());
    fs::write(&at, "precious").unwrap();
    let place = dir.mkdir("place").unwrap();
    let removal = dir
        .remove_in(OsStr::new("f"), ObjectIdentity::of(&held).unwrap(), AtFlags::empty(), &place)
        .unwrap();
    assert_eq!(removal, Removal::Foreign(at.clone()));
    assert_eq!(fs::read_to_string(&at).unwrap(), "precious");
}

/// Only an empty directory can be the new one. Any other is left unchanged, including its
/// mode.
#[test]
fn take_as_new_refuses_swapped_directory() {
    let (directory, dir) = shared();
    let precious = dir.mkdir("precious").unwrap();
    assert!(precious.take_as_new().is_ok());
    fs::write(directory.path().join("precious/canary"), "c").unwrap();
    fs::set_permissions(directory.path().join("precious"), fs::Permissions::from_mode(0o755))
        .unwrap();
    let error = precious.take_as_new().unwrap_err().to_string();
    assert!(error.contains("swapped while it was made"), "{error}");
    assert_eq!(fs::read_to_string(directory.path().join("precious/canary")).unwrap(), "c");
    assert_eq!(mode(&directory.path().join("precious")), 0o755);
}

#[test]
fn dir_private_creates_0700_and_refuses_looser_modes() {
    let (directory, _dir) = scratch();
    let path = directory.path().join("a/b/c");
    Dir::private(&path).unwrap();
    for made in ["a", "a/b", "a/b/c"] {
        assert_eq!(mode(&directory.path().join(made)), 0o700);
    }
    Dir::private(&path).unwrap();
    let set = |name: &str, mode: u32| {
        fs::set_permissions(directory.path().join(name), fs::Permissions::from_mode(mode)).unwrap()
    };
    set("a/b/c", 0o755);
    assert!(Dir::private(&path).is_err());
    Dir::guarded(&path, false).unwrap();
    set("a/b/c", 0o775);
    assert!(Dir::guarded(&path, false).unwrap_err().to_string().contains("others may write"));
    set("a/b/c", 0o700);
    set("a/b", 0o777);
    assert!(Dir::private(&path).is_err(), "others can swap what is below");
    set("a/b", 0o1777);
    Dir::private(&path).unwrap();
    fs::remove_dir(&path).unwrap();
    symlink("/etc", &path).unwrap();
    assert!(Dir::private(&path).is_err(), "a link is not followed");
    assert!(Dir::private(Path::new("relative")).is_err());
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(directory.path().join("a"), Some(65534), None).unwrap();
        assert!(
            Dir::private(&directory.path().join("a/new"))
                .unwrap_err()
                .to_string()
                .contains("another user")
        );
    }
}

#[test]
fn shared_or_hard_linked_file_is_not_trusted() {
    let (directory, dir) = scratch();
    let file = dir.create_new("f", 0o600).unwrap();
    assert!(Dir::is_trusted_file(&file).unwrap());
    fs::hard_link(directory.path().join("f"), directory.path().join("g")).unwrap();
    assert!(!Dir::is_trusted_file(&file).unwrap());
    fs::remove_file(directory.path().join("g")).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o622)).unwrap();
    assert!(!Dir::is_trusted_file(&file).unwrap());
}

#[test]
fn set_attribute_never_creates_a_file() {
    let (directory, _dir) = scratch();
    let path = directory.path().join("switch");
    assert!(set_attribute(&path, "1").is_err());
    assert!(!path.exists());
    fs::write(&path, "0").unwrap();
    set_attribute(&path, "1").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "1");
}

#[test]
fn open_below_stays_below_with_and_without_openat2() {
    let (directory, dir) = scratch();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("a/b")).unwrap();
    fs::write(directory.path().join("a/b/f"), "x").unwrap();
    fs::write(outside.path().join("f"), "x").unwrap();
    symlink(outside.path(), directory.path().join("a/link")).unwrap();
    symlink("b", directory.path().join("a/inside")).unwrap();
    let up = format!("a/../../{}/f", outside.path().file_name().unwrap().to_str().unwrap());
    for open in [open_below, walk] {
        let open =
            |path: &str| open(dir.as_fd(), Path::new(path), OFlags::RDONLY | OFlags::NOFOLLOW);
        assert!(open("a/b/f").is_ok() && open("a").is_ok());
        for path in ["a/link/f", "a/inside/f", "a/link", &up, "/etc/passwd", "..", ""] {
            assert!(open(path).is_err(), "{path:?}");
        }
    }
}

#[test]
fn report_path_follows_own_links_only() {
    let (directory, _dir) = scratch();
    let outside = tempfile::tempdir().unwrap();
    let canary = outside.path().join("canary");
    fs::write(&canary, "precious").unwrap();
    symlink(&canary, directory.path().join("link")).unwrap();
    let append = |name: &str| {
        open_to_append(&directory.path().join(name)).and_then(|mut file| file.write_all(b"x"))
    };
    append("link").unwrap();
    assert_eq!(fs::read_to_string(&canary).unwrap(), "preciousx", "the user's own");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(append("link").is_err());
    assert_eq!(fs::read_to_string(&canary).unwrap(), "preciousx");
    append("new").unwrap();
    append("new").unwrap();
    assert_eq!(fs::read_to_string(directory.path().join("new")).unwrap(), "xx");
    open_to_append(Path::new("/dev/stderr")).unwrap();
}

/// A tree with links of every kind, which other users cannot write to.
fn linked() -> tempfile::TempDir {
    let directory =
        tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("a/b/d")).unwrap();
    fs::create_dir_all(at("c")).unwrap();
    fs::write(at("a/f"), "x").unwrap();
    let absolute = at("a").to_str().unwrap().to_owned();
    for (name, target) in [
        ("l", "a/b"),
        ("a/up", "../c"),
        ("m", "l"),
        ("c/file", "../a/f"),
        ("c/through", "file/x"),
        ("loop", "loop"),
        ("a/nowhere", "none/x"),
        ("absolute", &absolute),
        ("a/b/top", "../.."),
        ("c/self", "."),
    ] {
        symlink(target, at(name)).unwrap();
    }
    directory
}

proptest::proptest! {
    /// The kernel is the oracle: if all links are the user's own, a path resolves or
    /// fails as it does in the kernel.
    #[test]
    fn look_up_resolves_own_links_like_the_kernel(
        steps in proptest::collection::vec(proptest::sample::select(vec![
            "a", "b", "c", "d", "f", "l", "m", "up", "file", "through", "loop", "nowhere", "absolute", "top", "self", "..", "none",
        ]), 1..7),
    ) {
        let tree = linked();
        let path = tree.path().join(steps.join("/"));
        let kernel = fs::metadata(&path).map(|found| (found.dev(), found.ino())).map_err(|error| error.raw_os_error());
        let named = ResolvedObject::look_up(&path);
        let ours = named.as_ref().map(|found| (found.stat().st_dev, found.stat().st_ino)).map_err(io::Error::raw_os_error);
        proptest::prop_assert_eq!(ours, kernel, "{:?}", path);
        if let Ok(named) = named {
            proptest::prop_assert_eq!(named.real_path().unwrap(), fs::canonicalize(&path).unwrap());
        }
    }
}

#[test]
fn link_in_shared_directory_is_never_followed() {
    let directory = linked();
    let look = |name: &str| {
        ResolvedObject::look_up(&directory.path().join(name))
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let paths = ["l", "l/d", "m/d", "c/file", "a/up/file"];
    assert!(paths.iter().all(|path| look(path).is_ok()));
    let shared = |name: &str, mode: u32| {
        fs::set_permissions(directory.path().join(name), fs::Permissions::from_mode(mode)).unwrap()
    };
    for mode in [0o777, 0o1777, 0o702] {
        shared("", mode);
        for path in ["l", "l/d", "m/d"] {
            assert!(
                look(path).unwrap_err().contains("others may write to; name its target"),
                "{path} {mode:o}"
            );
        }
        // Only links in the shared directory are affected; paths that need none still
        // resolve.
        assert!(look("a/b/d").is_ok() && look("c/file").is_ok());
    }
    shared("", 0o700);
    shared("c", 0o777);
    assert!(look("a/up").is_ok() && look("a/up/file").is_err() && look("l/d").is_ok());
}

#[test]
fn open_or_make_follows_own_links_and_is_private() {
    let directory = linked();
    let made = Dir::open_or_make(&directory.path().join("l/new/deeper")).unwrap();
    assert_eq!(mode(&directory.path().join("a/b/new/deeper")), 0o700);
    assert_eq!(
        made.identity().unwrap(),
        Dir::open(&directory.path().join("m/new/deeper")).unwrap().identity().unwrap()
    );
    assert!(
        Dir::open_or_make(&directory.path().join("a/f")).is_err()
            && Dir::open_or_make(&directory.path().join("a/f/x")).is_err()
    );
}

/// Regression: root with another user's HOME created `.local/share` there, owned by root,
/// and then refused to use it.
#[test]
fn make_sheltered_creates_nothing_in_shared_directory() {
    let directory = linked();
    let shared = directory.path().join("c");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(
        Dir::make_sheltered(&shared.join("new/deeper")).is_err() && !shared.join("new").exists()
    );
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(
        Dir::make_sheltered(&shared.join("new/deeper")).is_ok()
            && shared.join("new/deeper").is_dir()
    );
}

#[test]
fn open_to_read_accepts_files_and_inherited_pipes_only() {
    use named::{Streams, open_to_read, read};
    let directory = linked();
    let pipe = directory.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    for path in [&pipe, Path::new("/dev/zero"), Path::new("/dev/tty"), directory.path()] {
        assert!(
            open_to_read(path, Streams::Pipes).is_err() && open_to_read(path, Streams::No).is_err(),
            "{}",
            path.display()
        );
    }
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(b"abc").unwrap();
    drop(writer);
    let given = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
    assert!(open_to_read(&given, Streams::No).is_err());
    assert_eq!(read(&given, 3).unwrap(), b"abc");
    assert_eq!(read(&directory.path().join("c/file"), 1).unwrap(), b"x");
    assert!(read(&directory.path().join("c/file"), 0).unwrap_err().to_string().contains("longer"));
    assert_eq!(read(Path::new("/dev/null"), 0).unwrap(), b"");
}

#[test]
fn open_stream_to_write_accepts_streams_only() {
    use named::open_stream_to_write;
    let directory = linked();
    let at = |name: &str| directory.path().join(name);
    rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert!(open_stream_to_write(&at("pipe")).unwrap_err().to_string().contains("nothing reads"));
    assert!(
        open_stream_to_write(&at("a/f")).unwrap().is_none()
            && open_stream_to_write(&at("none")).unwrap().is_none()
    );
    open_stream_to_write(Path::new("/dev/null")).unwrap().unwrap().write_all(b"x").unwrap();
    // Open in this process: the file is appended to, not replaced.
    let file = fs::File::options().append(true).open(at("a/f")).unwrap();
    let held = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    open_stream_to_write(&held).unwrap().unwrap().write_all(b"y").unwrap();
    assert_eq!(fs::read(at("a/f")).unwrap(), b"xy");
}

/// Grants user 65534 all rights through an access list, limited by the mask. Returns
/// false if access lists are not supported.
fn grant(path: &Path, list: &std::ffi::CStr, mask: u16) -> bool {
    // Version 2; then tag, permissions and id for owner, user 65534, group, mask, other.
    let entries: [(u16, u16, u32); 5] = [
        (1, 7, u32::MAX),
        (2, 7, 65_534),
        (4, 5, u32::MAX),
        (16, mask, u32::MAX),
        (32, 5, u32::MAX),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        bytes.extend(id.to_le_bytes());
    }
    match rustix::fs::setxattr(path, list, &bytes, rustix::fs::XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => false,
        set => set.is_ok() || panic!("{set:?}"),
    }
}

#[test]
fn acl_with_write_for_another_user_counts_as_shared() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path();
    for (mask, shared) in [(7, true), (5, false), (3, true)] {
        if !grant(path, c"system.posix_acl_access", mask) {
            return crate::skip::skip("access lists on /dev/shm");
        }
        assert_eq!(Dir::sheltered_file(&path.join("f")).is_err(), shared, "mask {mask}");
        assert_eq!(Dir::guarded(path, false).is_err(), shared, "mask {mask}");
        assert!(Dir::private(path).is_err(), "mask {mask}");
    }
    // Sticky: another user can add files but cannot remove this user's.
    set_mode(fs::File::open(path).unwrap().as_fd(), 0o1777).unwrap();
    assert!(
        Dir::sheltered_directory(path).is_ok() && Dir::sheltered_file(&path.join("f")).is_err()
    );
}

#[test]
fn inherited_acl_is_masked_by_private_mode() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    if !grant(directory.path(), c"system.posix_acl_default", 7) {
        return crate::skip::skip("access lists on /dev/shm");
    }
    let dir = Dir::open(directory.path()).unwrap();
    dir.require_unshared().unwrap();
    dir.mkdir("d").unwrap().require_private().unwrap();
    let file = |name: &str| fs::File::open(directory.path().join(name)).unwrap();
    dir.write_atomically("atomic", 0o644, |file| file.write_all(b"x")).unwrap();
    drop((
        dir.create_new("new", PRIVATE_FILE).unwrap(),
        dir.open_or_create("opened", PRIVATE_FILE).unwrap(),
    ));
    for name in ["atomic", "new", "opened"] {
        assert!(
            named::has_access_list(file(name)),
            "{name} inherits the list, and its mask takes the rights away"
        );
        assert!(
            !named::is_open_to_others(&file(name))
                && mode(&directory.path().join(name)) & 0o020 == 0,
            "{name}"
        );
    }
}

/// The group bits look like those of the user's own group, yet another user may write.
#[test]
fn has_access_list_detects_acl_of_another_user() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let open = || fs::File::open(directory.path()).unwrap();
    assert!(!named::has_access_list(open()));
    let path = directory.path();
    if !grant(path, c"system.posix_acl_access", 7) {
        return crate::skip::skip("access lists on /dev/shm");
    }
    assert_eq!(mode(path) & 0o020, 0o020, "the mask");
    assert!(named::has_access_list(open()));
    assert!(named::has_access_list(ResolvedObject::look_up(path).unwrap()), "also of a place");
}
