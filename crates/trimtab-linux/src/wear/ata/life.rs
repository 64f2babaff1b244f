//! Rated life used, from attributes. The scale is the vendor's own.

use super::Attribute;
use crate::wear::Used;
use crate::wear::names::{LifeName, life_name};
use crate::wear::value::count;
use serde_json::Value;

/// The most telling attribute: one that names life remaining or used, else a wear
/// indicator, else smartctl's own reading.
pub fn used(document: &Value, attributes: &[Attribute]) -> Option<Used> {
    let named = || {
        attributes
            .iter()
            .filter_map(|attribute| Some((attribute, of_life(attribute)?)))
            .max_by_key(|(_, percent)| *percent)
    };
    let (attribute, percent) = match named()
        .or_else(|| indicator(attributes, "Media_Wearout"))
        .or_else(|| indicator(attributes, "Wear_Leveling"))
    {
        Some((attribute, percent)) => (attribute.title(), percent),
        None => {
            let percent = count(&document["endurance_used"]["current_percent"])
                .filter(|percent| *percent <= 255)?;
            ("smartctl, endurance_used".to_owned(), percent)
        }
    };
    Some(Used { percent, is_standard: false, source: attribute })
}

/// Vendors put the percentage into the raw value, the normalised value, or both. Micron's
/// raw value counts up while the normalised one counts down, under one name.
fn of_life(attribute: &Attribute) -> Option<u64> {
    let name = life_name(&attribute.name)?;
    let normalised = attribute.normalised.filter(|value| *value <= 100);
    let raw = attribute.raw.filter(|raw| *raw <= 255);
    match (name, normalised, raw) {
        // The raw value is the complement: life used, beyond 100 at the end of the scale.
        (_, Some(left), Some(used)) if left + used == 100 || left == 0 && used > 100 => Some(used),
        // SandForce's raw value is 0 or 1, whatever the life left.
        (LifeName::Remaining, Some(left), raw)
            if left < 100
                || raw.is_none_or(|raw| raw > 100 || raw == 1 && !states_percent(attribute)) =>
        {
            Some(100 - left)
        }
        // The normalised value never moves; the raw value has the percentage that the
        // name states.
        (LifeName::Remaining, _, Some(left)) if left <= 100 => Some(100 - left),
        (LifeName::Used, Some(100) | None, Some(used)) => Some(used),
        (LifeName::Used, Some(used), Some(raw)) if raw == used => Some(used),
        _ => None,
    }
}

fn states_percent(attribute: &Attribute) -> bool {
    let name = attribute.name.to_ascii_lowercase();
    ["perc", "pct", "%"].iter().any(|word| name.contains(word))
}

/// An indicator that falls from 100. Under other numbers, vendors use the name for other
/// scales.
fn indicator<'a>(attributes: &'a [Attribute], name: &str) -> Option<(&'a Attribute, u64)> {
    let is_it = |attribute: &&Attribute| {
        attribute.name.starts_with(name)
            && [173, 177, 233].contains(&attribute.id)
            && !attribute.is_default_name
    };
    let attribute = attributes.iter().find(is_it)?;
    let left = attribute.normalised.filter(|value| (1..=100).contains(value))?;
    Some((attribute, 100 - left))
}
