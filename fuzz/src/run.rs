//! A stored run: any bytes get an answer, and an accepted run is written as it was read.

use trimtab::store::RunId;
use trimtab_sim::run::Run;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    if let Ok(run) = serde_json::from_slice::<Run>(bytes) {
        let text = serde_json::to_vec(&run).expect("a run has a form in JSON");
        let back = serde_json::from_slice::<Run>(&text).expect("a written run can be read");
        assert_eq!(RunId::of(&run), RunId::of(&back));
    }
}
