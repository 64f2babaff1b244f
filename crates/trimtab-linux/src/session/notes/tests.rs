use super::*;
use std::path::Path;

/// A simulated kernel attribute in a file, and a directory of notes.
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

    fn notes(&self) -> Notes {
        Notes::beside(self.0.path().to_owned())
    }

    fn count(&self) -> usize {
        std::fs::read_dir(self.0.path().join("notes")).map_or(0, Iterator::count)
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
fn note_of_killed_process_is_undone_and_of_living_kept() {
    let machine = Machine::new("8\n");
    let notes = machine.notes();
    let note = notes.leave("x", machine.change(&["4"])).unwrap();
    machine.set("4\n");
    assert_eq!(notes.put_back_left(&MountScope::Nothing).unwrap(), []);
    assert!(notes.leave("x", machine.change(&["2"])).is_err(), "one at a time");
    assert_eq!(notes.changed_meanwhile(&MountScope::Nothing).unwrap(), [machine.change(&["4"])]);
    drop(note);
    assert_eq!(
        notes.changed_meanwhile(&MountScope::Nothing).unwrap(),
        [],
        "it is nobody's any more"
    );
    let left = notes.put_back_left(&MountScope::Nothing).unwrap();
    assert_eq!((left.len(), left[0].undone, machine.count()), (1, UndoResult::PutBack, 0));
    assert_eq!(machine.value(), "8");
    assert!(left[0].text.contains("discard_max_bytes is 8 again"), "{}", left[0].text);
}

#[test]
fn note_restores_only_the_last_two_values_set() {
    for (now, undone, after) in [
        ("4", UndoResult::PutBack, "8"),
        ("2", UndoResult::PutBack, "8"),
        ("8", UndoResult::Nothing, "8"),
        ("1", UndoResult::Changed, "1"),
        ("16", UndoResult::Changed, "16"),
    ] {
        let machine = Machine::new("8");
        let notes = machine.notes();
        let mut note = notes.leave("x", machine.change(&["4"])).unwrap();
        note.say(machine.change(&["4", "2"])).unwrap();
        machine.set(now);
        drop(note);
        assert_eq!(notes.put_back_left(&MountScope::Nothing).unwrap()[0].undone, undone, "{now}");
        assert_eq!((machine.value().as_str(), machine.count()), (after, 0), "{now}");
    }
}

#[test]
fn note_of_missing_device_ends_and_of_unknown_file_stays() {
    let machine = Machine::new("8");
    let notes = machine.notes();
    drop(notes.leave("x", machine.change(&["4"])).unwrap());
    std::fs::remove_file(machine.file()).unwrap();
    assert_eq!(notes.put_back_left(&MountScope::Nothing).unwrap()[0].undone, UndoResult::Nothing);
    assert_eq!(machine.count(), 0);
    // Only known attributes are ever written, regardless of the note.
    let other = machine.0.path().join("precious");
    std::fs::write(&other, "4").unwrap();
    drop(
        notes
            .leave(
                "x",
                Change::Attribute {
                    file: other.clone(),
                    before: "8".into(),
                    set: vec!["4".into()],
                },
            )
            .unwrap(),
    );
    assert_eq!(notes.put_back_left(&MountScope::Nothing).unwrap()[0].undone, UndoResult::Failed);
    assert_eq!((std::fs::read_to_string(other).unwrap().as_str(), machine.count()), ("4", 1));
}

#[test]
fn empty_note_is_removed_without_a_change() {
    let machine = Machine::new("4");
    let notes = machine.notes();
    drop(notes.leave("x", machine.change(&["4"])).unwrap());
    let path = machine.0.path().join("notes/x.note");
    std::fs::write(&path, "").unwrap();
    assert_eq!(notes.put_back_left(&MountScope::Nothing).unwrap(), []);
    assert_eq!((machine.value().as_str(), machine.count()), ("4", 0));
}

#[test]
fn unreadable_note_stays_and_is_not_overwritten() {
    let machine = Machine::new("4");
    let notes = machine.notes();
    drop(notes.leave("x", machine.change(&["4"])).unwrap());
    let path = machine.0.path().join("notes/x.note");
    std::fs::write(&path, "{\"what\":\"of a later version\"}").unwrap();
    assert_eq!(notes.put_back_left(&MountScope::Nothing).unwrap()[0].undone, UndoResult::Failed);
    assert!(
        notes
            .leave("x", machine.change(&["2"]))
            .unwrap_err()
            .to_string()
            .contains("not so that it can be read"),
        "what it says is not settled"
    );
    assert!(std::fs::read_to_string(&path).unwrap().contains("a later version"));
}

#[test]
fn lock_holder_takes_over_note_and_previous_owner_sees_it() {
    let machine = Machine::new("8");
    let notes = machine.notes();
    let note = notes.leave("x", machine.change(&["4"])).unwrap();
    machine.set("4");
    let (left, gone) = notes.take_over("x").unwrap().unwrap();
    assert_eq!((left.undone, gone, note.is_there()), (UndoResult::PutBack, false, false));
    machine.set("4");
    assert_eq!(note.put_back().unwrap(), UndoResult::Nothing);
    assert_eq!(machine.value(), "4", "another process has changed it");
    assert_eq!(notes.take_over("x").unwrap(), None);
}

#[test]
fn notes_directory_may_be_reached_through_a_link() {
    let machine = Machine::new("8");
    let link = machine.0.path().join("link");
    std::os::unix::fs::symlink(machine.0.path(), &link).unwrap();
    drop(Notes::beside(link).leave("x", machine.change(&["4"])).unwrap());
    machine.set("4");
    assert_eq!(
        machine.notes().put_back_left(&MountScope::Nothing).unwrap()[0].undone,
        UndoResult::PutBack
    );
}

#[test]
fn note_that_is_a_link_or_world_writable_is_refused() {
    let machine = Machine::new("4");
    let notes = machine.notes();
    drop(notes.leave("x", machine.change(&["4"])).unwrap());
    let path = machine.0.path().join("notes/x.note");
    let moved = machine.0.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &path).unwrap();
    assert!(notes.put_back_left(&MountScope::Nothing).is_err());
    assert_eq!(machine.value(), "4");
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(&moved, &path).unwrap();
    let writable: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&path, writable).unwrap();
    assert!(notes.put_back_left(&MountScope::Nothing).is_err());
    assert_eq!(machine.value(), "4");
    let shared: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(machine.0.path().join("notes"), shared).unwrap();
    assert!(
        Notes::beside(Path::new(machine.0.path()).to_owned())
            .put_back_left(&MountScope::Nothing)
            .is_err()
    );
}
