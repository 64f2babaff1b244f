//! Names of victim policies in options and tables.

use trimtab_drive::spec::VictimPolicy;

/// Name of a policy: `greedy`, `d:10`.
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

/// Parses the name of a policy that has a formula.
///
/// # Errors
/// If the text is not such a name.
pub fn parse(text: &str) -> Result<VictimPolicy, String> {
    let d = |number: &str| {
        number.parse().ok().filter(|d| (1..=4096).contains(d)).map(VictimPolicy::DChoices)
    };
    match text {
        "greedy" => Some(VictimPolicy::Greedy),
        "fifo" => Some(VictimPolicy::Fifo),
        "random" => Some(VictimPolicy::Random),
        _ => text.strip_prefix("d:").and_then(d),
    }
    .ok_or_else(|| "the policy must be greedy, fifo, random or d:N with N from 1 to 4096".into())
}
