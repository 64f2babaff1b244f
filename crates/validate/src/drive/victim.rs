//! Names of victim policies on the command line and in tables.

use trimtab_drive::spec::VictimPolicy;

/// Its name: `greedy`, `d:10`.
#[must_use]
pub fn name(policy: VictimPolicy) -> String {
    match policy {
        VictimPolicy::Greedy => "greedy".into(),
        VictimPolicy::CostBenefit => "cost-benefit".into(),
        VictimPolicy::Fifo => "fifo".into(),
        VictimPolicy::DChoices(d) => format!("d:{d}"),
        VictimPolicy::Random => "random".into(),
    }
}

/// Reads the name of a policy that has a formula.
///
/// # Errors
/// Any other text.
pub fn parse(text: &str) -> Result<VictimPolicy, String> {
    let d = |number: &str| number.parse().ok().filter(|d| (1..=4096).contains(d)).map(VictimPolicy::DChoices);
    match text {
        "greedy" => Some(VictimPolicy::Greedy),
        "fifo" => Some(VictimPolicy::Fifo),
        "random" => Some(VictimPolicy::Random),
        _ => text.strip_prefix("d:").and_then(d),
    }
    .ok_or_else(|| "a policy with a formula is greedy, fifo, random or d:N with N from 1 to 4096".into())
}
