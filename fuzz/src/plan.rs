//! Plans of sweeps: any text is read or refused in one line, and each cell of an accepted
//! plan has a place on the axes.

use trimtab_study::sweep::Plan;

/// Runs one input.
pub fn run(text: &str) {
    match Plan::parse(text) {
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        Ok(plan) => {
            let cells = plan.cells();
            assert!(cells > 0);
            for cell in [0, cells / 2, cells - 1] {
                let _ = plan.place(cell);
            }
        }
    }
}
