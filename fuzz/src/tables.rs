//! Text that a machine reports about itself: mount table, fstab, swaps, counters, and the
//! daemon's configuration. All of it is read or refused. A change to fstab is one line,
//! and an added rule equals the request.

use std::path::Path;
use trimtab::apply::{config_text, fstab};
use trimtab::daemon::config::Config;
use trimtab_linux::host::{mountinfo, stat::DiskStat};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let mounts = mountinfo::parse(bytes);
    for mount in &mounts {
        assert!(mount.mount_point.is_absolute());
        let found = mountinfo::containing(&mounts, &mount.mount_point).expect("it is one itself");
        assert!(found.mount_point.as_os_str().len() >= mount.mount_point.as_os_str().len());
        let _ = (mount.is_writable(), mount.option_value("discard"));
    }
    assert!(mountinfo::swap_sources(bytes).all(|source| source.is_absolute()));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = DiskStat::parse(text);
    listed(text);
    configured(text);
}

/// Uses the text as fstab; `/a` or the first mount point gets an option.
fn listed(text: &str) {
    for wanted in [None, Some("discard"), Some("discard=async")] {
        let Ok(after) = fstab::with_discard(text, Path::new("/a"), wanted) else { continue };
        let changed = text.split('\n').zip(after.split('\n')).filter(|(a, b)| a != b).count();
        assert!(changed <= 1 && text.split('\n').count() == after.split('\n').count());
        assert_eq!(fstab::discard_option(&after, Path::new("/a")).as_deref(), wanted);
        assert_eq!(fstab::fs_type(text, Path::new("/a")), fstab::fs_type(&after, Path::new("/a")));
    }
}

/// Uses the text as the daemon's configuration.
fn configured(text: &str) {
    let file = Path::new("c.toml");
    match Config::parse(file, text) {
        Err(error) => {
            assert!(error.line <= text.lines().count() + 1);
            assert!(!error.to_string().contains('\n'));
        }
        Ok(config) => {
            assert!(config.rules.iter().filter_map(|r| r.path.as_deref()).all(Path::is_absolute));
            if let Ok(after) =
                config_text::with_policy(file, text, Path::new("/a"), "idle:budget=2ms")
            {
                let again = Config::parse(file, &after).expect("what was written is read again");
                let rule = again.rule_for(Path::new("/a")).expect("it was asked for");
                assert_eq!(rule.path.as_deref(), Some(Path::new("/a")));
                assert_eq!(rule.policy.name(), "idle");
                assert!(again.rules.len() <= config.rules.len() + 1);
            }
        }
    }
}
