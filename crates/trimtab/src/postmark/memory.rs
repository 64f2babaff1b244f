//! Refuses runs that are too large for the machine's memory.

use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::processes::available_memory;
use trimtab_sim::workload::postmark::PostmarkSettings;

/// Fails if these settings need more memory than is available.
pub fn check(settings: &PostmarkSettings) -> Result<(), UsageError> {
    enough(settings.memory(), available_memory())
}

fn enough(needed: Bytes, available: Option<Bytes>) -> Result<(), UsageError> {
    match available {
        Some(available) if needed > available => Err(UsageError::new(format!(
            "the table of files and the text need {needed} of memory, but only \
                {available} is available"
        ))
        .hint("use fewer or smaller files")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_refuses_too_large_runs_and_allows_unknown() {
        let memory = Some(Bytes(1_024_000_000));
        assert!(
            enough(Bytes(1_024_000_000), memory).is_ok()
                && enough(Bytes(1_024_000_001), memory).is_err()
        );
        assert!(enough(Bytes::MAX, None).is_ok());
        let absurd = PostmarkSettings {
            number: (1 << 30) - 1,
            size_high: i32::MAX as u32,
            ..PostmarkSettings::default()
        };
        assert!(check(&absurd).is_err());
    }
}
