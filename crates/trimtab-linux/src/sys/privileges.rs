//! Doing root's work with no more of root's rights than it takes.

use rustix::io::Errno;
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use std::io;

/// Gives up every capability but these for good: for this process and for every program that it starts, none of which gets any back.
///
/// Has to be called while there is one thread, because each has capabilities of its own.
pub fn keep_only(kept: CapabilitySet) -> io::Result<()> {
    let has = thread::capabilities(None)?;
    if has.permitted.is_empty() {
        return Ok(());
    }
    for capability in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)).filter(|one| !kept.contains(*one)) {
        match thread::capability_is_in_bounding_set(capability) {
            Ok(true) => match thread::remove_capability_from_bounding_set(capability) {
                // A container may not let us; what is permitted is given up below all the same.
                Ok(()) | Err(Errno::PERM) => {}
                Err(errno) => return Err(errno.into()),
            },
            Ok(false) => {}
            // The kernel knows no more of them.
            Err(_) => break,
        }
    }
    // Kernels without ambient capabilities have none to clear.
    let _ = thread::clear_ambient_capability_set();
    let sets = CapabilitySets { effective: has.effective & kept, permitted: has.permitted & kept, inheritable: CapabilitySet::empty() };
    thread::set_capabilities(None, sets)?;
    Ok(thread::set_no_new_privs(true)?)
}
