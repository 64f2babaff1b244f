//! Dropping the capabilities that a root process does not need.

use rustix::io::Errno;
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use std::io;

/// Drops all capabilities except `kept`, permanently, for this process and every program
/// that it starts.
///
/// Call while the process has a single thread: capabilities are per thread.
pub fn keep_only(kept: CapabilitySet) -> io::Result<()> {
    let has = thread::capabilities(None)?;
    if has.permitted.is_empty() {
        return Ok(());
    }
    for capability in (0..u64::BITS)
        .map(|bit| CapabilitySet::from_bits_retain(1 << bit))
        .filter(|one| !kept.contains(*one))
    {
        match thread::capability_is_in_bounding_set(capability) {
            Ok(true) => match thread::remove_capability_from_bounding_set(capability) {
                // A container may forbid this. The permitted set is reduced below anyway.
                Ok(()) | Err(Errno::PERM) => {}
                Err(errno) => return Err(errno.into()),
            },
            Ok(false) => {}
            // End of the capabilities that this kernel supports.
            Err(_) => break,
        }
    }
    // Fails on kernels without ambient capabilities, where nothing needs clearing.
    let _ = thread::clear_ambient_capability_set();
    let sets = CapabilitySets {
        effective: has.effective & kept,
        permitted: has.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    thread::set_capabilities(None, sets)?;
    Ok(thread::set_no_new_privs(true)?)
}
