//! The command line's small languages: any text is refused, or its printed form means the
//! same.

use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::policy::{PolicySpec, PolicyState};

/// Runs one input.
pub fn run(text: &str) {
    if let Ok(policy) = text.parse::<PolicySpec>() {
        let again: PolicySpec = policy.to_string().parse().expect("what is shown is read again");
        assert_eq!(policy.to_string(), again.to_string());
        let _ = policy.build(&PolicyState::default());
    }
    if let Ok(class) = text.parse::<DataClass>() {
        assert_eq!(class.to_string().parse::<DataClass>(), Ok(class));
    }
    let _ = text.parse::<Bytes>();
    let _ = text.parse::<Nanos>();
}
