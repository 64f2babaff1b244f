//! Available memory, and the refusal of work that does not fit.

use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;

/// Memory available without swapping (`MemAvailable`); `None` if it is not reported.
pub fn available() -> Option<Bytes> {
    available_in(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn available_in(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib.saturating_mul(1024)))
}

/// Fails with `hint` if `what` needs more memory than is available.
///
/// # Errors
/// It does not fit.
pub fn check(what: &str, needed: Bytes, hint: &str) -> Result<(), UsageError> {
    enough(what, needed, available(), hint)
}

/// Fails if the tables of a drive of `spec` do not fit in memory.
///
/// # Errors
/// They do not fit.
pub fn check_drive(spec: &DriveSpec) -> Result<(), UsageError> {
    let what = format!("the tables of a drive of {}", Bytes(spec.capacity_bytes));
    check(&what, Bytes(spec.table_bytes()), "use a smaller drive")
}

fn enough(
    what: &str,
    needed: Bytes,
    available: Option<Bytes>,
    hint: &str,
) -> Result<(), UsageError> {
    match available {
        Some(available) if needed > available => Err(UsageError::new(format!(
            "{what} need {needed} of memory, but only {available} is available"
        ))
        .hint(hint)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_in_uses_units_of_1024_bytes() {
        assert_eq!(
            available_in("MemTotal:  8000000 kB\nMemAvailable:    1000000 kB\n"),
            Some(Bytes(1_024_000_000))
        );
        assert_eq!(available_in(""), None);
        assert!(available().unwrap() > Bytes(1 << 20));
    }

    #[test]
    fn check_refuses_what_does_not_fit_and_allows_unknown() {
        let is_enough =
            |needed, available| enough("the tables", Bytes(needed), available, "").is_ok();
        let memory = Some(Bytes(1_024_000_000));
        assert!(is_enough(1_024_000_000, memory) && !is_enough(1_024_000_001, memory));
        assert!(is_enough(u64::MAX, None));
        assert!(check("the tables", Bytes(1 << 60), "").is_err());
    }
}
