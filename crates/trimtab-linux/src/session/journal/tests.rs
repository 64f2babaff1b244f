use super::*;
use std::path::PathBuf;

/// A simulated kernel attribute in a file, and a journal.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new(value: &str) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.set(value);
        machine
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("discard_max_bytes")
    }

    fn set(&self, value: &str) {
        std::fs::write(self.file(), value).unwrap();
    }

    fn value(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    fn journal(&self) -> TemporaryJournal {
        TemporaryJournal::of_directory(self.0.path())
    }

    /// Waits until nobody holds a record. A process that another test has just forked holds
    /// those of this one until it has closed them.
    fn wait_until_free(&self) {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while self.journal().active(&MountScope::Nothing).is_ok_and(|active| !active.is_empty())
            && std::time::Instant::now() < until
        {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn count(&self) -> usize {
        std::fs::read_dir(self.0.path().join("journal")).map_or(0, Iterator::count)
    }

    fn change(&self, set: &[&str]) -> Change {
        Change::Attribute {
            file: self.file(),
            before: "8".to_owned(),
            set: set.iter().map(|set| (*set).to_owned()).collect(),
        }
    }
}

#[test]
fn record_of_killed_process_is_undone_of_living_kept() {
    let machine = Machine::new("8\n");
    let journal = machine.journal();
    let change = journal.begin("x", machine.change(&["4"])).unwrap();
    machine.set("4\n");
    assert_eq!(journal.settle_left(&MountScope::Nothing).unwrap(), []);
    assert!(journal.begin("x", machine.change(&["2"])).is_err(), "one at a time");
    assert_eq!(journal.active(&MountScope::Nothing).unwrap(), [machine.change(&["4"])]);
    drop(change);
    machine.wait_until_free();
    assert_eq!(journal.active(&MountScope::Nothing).unwrap(), [], "it is nobody's any more");
    let left = journal.settle_left(&MountScope::Nothing).unwrap();
    assert_eq!((left.len(), left[0].undone, machine.count()), (1, UndoResult::PutBack, 0));
    assert_eq!(machine.value(), "8");
    assert!(left[0].text.contains("discard_max_bytes is 8 again"), "{}", left[0].text);
}

#[test]
fn record_restores_only_the_last_two_values_set() {
    for (now, undone, after) in [
        ("4", UndoResult::PutBack, "8"),
        ("2", UndoResult::PutBack, "8"),
        ("8", UndoResult::Nothing, "8"),
        ("1", UndoResult::Changed, "1"),
        ("16", UndoResult::Changed, "16"),
    ] {
        let machine = Machine::new("8");
        let journal = machine.journal();
        let mut change = journal.begin("x", machine.change(&["4"])).unwrap();
        change.update(machine.change(&["4", "2"])).unwrap();
        machine.set(now);
        drop(change);
        machine.wait_until_free();
        assert_eq!(journal.settle_left(&MountScope::Nothing).unwrap()[0].undone, undone, "{now}");
        assert_eq!((machine.value().as_str(), machine.count()), (after, 0), "{now}");
    }
}

#[test]
fn record_of_missing_device_ends_of_unknown_file_stays() {
    let machine = Machine::new("8");
    let journal = machine.journal();
    drop(journal.begin("x", machine.change(&["4"])).unwrap());
    std::fs::remove_file(machine.file()).unwrap();
    assert_eq!(journal.settle_left(&MountScope::Nothing).unwrap()[0].undone, UndoResult::Nothing);
    assert_eq!(machine.count(), 0);
    // Only known attributes are ever written, regardless of the record.
    let other = machine.0.path().join("precious");
    std::fs::write(&other, "4").unwrap();
    drop(
        journal
            .begin(
                "x",
                Change::Attribute {
                    file: other.clone(),
                    before: "8".into(),
                    set: vec!["4".into()],
                },
            )
            .unwrap(),
    );
    assert_eq!(journal.settle_left(&MountScope::Nothing).unwrap()[0].undone, UndoResult::Failed);
    assert_eq!((std::fs::read_to_string(other).unwrap().as_str(), machine.count()), ("4", 1));
}

#[test]
fn incomplete_record_is_removed_without_a_change() {
    let machine = Machine::new("4");
    let journal = machine.journal();
    drop(journal.begin("x", machine.change(&["4"])).unwrap());
    let path = machine.0.path().join("journal/x.json");
    // The name that a process killed while it wrote the record leaves.
    std::fs::rename(&path, path.with_file_name(".x.json.0123456789abcdef")).unwrap();
    assert_eq!(journal.settle_left(&MountScope::Nothing).unwrap(), []);
    assert_eq!((machine.value().as_str(), machine.count()), ("4", 0));
}

#[test]
fn record_is_private_and_replaced_as_a_whole() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let machine = Machine::new("8");
    let mut change = machine.journal().begin("x", machine.change(&["4"])).unwrap();
    let path = machine.0.path().join("journal/x.json");
    let before = std::fs::metadata(&path).unwrap();
    change.update(machine.change(&["4", "2"])).unwrap();
    let after = std::fs::metadata(&path).unwrap();
    assert_ne!(before.ino(), after.ino(), "a new file, renamed over the old one");
    assert_eq!(after.permissions().mode() & 0o777, 0o600);
    assert!(change.is_there());
    assert_eq!(machine.journal().active(&MountScope::Nothing).unwrap().len(), 1, "still locked");
}

#[test]
fn names_are_numbered_per_kind_and_read_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let place = Journal::place(directory.path());
    assert!(Journal::open(&place, false).unwrap().is_none());
    let journal = Journal::open(&place, true).unwrap().unwrap();
    for (kind, name) in [("a", "a-0001"), ("b", "b-0001"), ("a", "a-0002")] {
        assert_eq!(journal.next_name(kind).unwrap(), name);
        drop(journal.create(name, &kind).unwrap());
    }
    drop(journal.create("a-10000", &"a").unwrap());
    let names = |kind: &str| -> Vec<String> {
        journal.records::<String>(kind).unwrap().into_iter().map(|found| found.name).collect()
    };
    assert_eq!(names("a"), ["a-0001", "a-0002", "a-10000"]);
    assert_eq!(journal.next_name("a").unwrap(), "a-10001");
    let (entry, content) =
        journal.resume(journal.read::<String>("b-0001").unwrap().unwrap()).unwrap();
    assert_eq!(content, "b");
    journal.remove(&entry).unwrap();
    assert_eq!(names("b"), [""; 0]);
}

#[test]
fn record_stays_locked_while_a_child_runs() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(&Journal::place(directory.path()), true).unwrap().unwrap();
    let entry = journal.create("x", &1).unwrap();
    entry.share_lock().unwrap();
    let mut orphan = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    drop(entry);
    assert!(journal.read::<u32>("x").unwrap().unwrap().alive);
    orphan.kill().unwrap();
    orphan.wait().unwrap();
    assert!(!journal.read::<u32>("x").unwrap().unwrap().alive);
}

#[test]
fn unreadable_record_stays_and_is_not_overwritten() {
    let machine = Machine::new("4");
    let journal = machine.journal();
    drop(journal.begin("x", machine.change(&["4"])).unwrap());
    let path = machine.0.path().join("journal/x.json");
    std::fs::write(&path, "{\"version\":2,\"change\":\"of a later version\"}").unwrap();
    assert_eq!(journal.settle_left(&MountScope::Nothing).unwrap()[0].undone, UndoResult::Failed);
    assert!(
        journal
            .begin("x", machine.change(&["2"]))
            .unwrap_err()
            .to_string()
            .contains("another version of trimtab"),
        "what it says is not settled"
    );
    assert!(std::fs::read_to_string(&path).unwrap().contains("a later version"));
}

#[test]
fn lock_holder_takes_over_record_and_former_owner_sees_it() {
    let machine = Machine::new("8");
    let journal = machine.journal();
    let change = journal.begin("x", machine.change(&["4"])).unwrap();
    machine.set("4");
    let (left, gone) = journal.take_over("x").unwrap().unwrap();
    assert_eq!((left.undone, gone, change.is_there()), (UndoResult::PutBack, false, false));
    machine.set("4");
    assert_eq!(change.restore().unwrap(), UndoResult::Nothing);
    assert_eq!(machine.value(), "4", "another process has changed it");
    assert_eq!(journal.take_over("x").unwrap(), None);
}

#[test]
fn journal_may_be_reached_through_a_link() {
    let machine = Machine::new("8");
    let link = machine.0.path().join("link");
    std::os::unix::fs::symlink(machine.0.path(), &link).unwrap();
    drop(TemporaryJournal::of_directory(&link).begin("x", machine.change(&["4"])).unwrap());
    machine.set("4");
    assert_eq!(
        machine.journal().settle_left(&MountScope::Nothing).unwrap()[0].undone,
        UndoResult::PutBack
    );
}

#[test]
fn record_that_is_a_link_or_world_writable_is_refused() {
    let machine = Machine::new("4");
    let journal = machine.journal();
    drop(journal.begin("x", machine.change(&["4"])).unwrap());
    let path = machine.0.path().join("journal/x.json");
    let moved = machine.0.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &path).unwrap();
    assert!(journal.settle_left(&MountScope::Nothing).is_err());
    assert_eq!(machine.value(), "4");
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(&moved, &path).unwrap();
    let writable: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&path, writable).unwrap();
    assert!(journal.settle_left(&MountScope::Nothing).is_err());
    assert_eq!(machine.value(), "4");
    let shared: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(machine.0.path().join("journal"), shared).unwrap();
    assert!(
        TemporaryJournal::of_directory(machine.0.path()).settle_left(&MountScope::Nothing).is_err()
    );
}
