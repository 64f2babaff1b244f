//! Serialises a twin: a normal specification plus parameter confidence and members.

use super::super::DriveSpec;
use super::super::text::{flatten, table, text_of};
use super::{NONE, Origin, Parameter, Twin};
use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const HEAD: &str = "\
# A twin: a modelled drive that reproduces the measurements of the drive named below. Use it like any drive: drive:THIS_FILE.toml.
# 'trimtab drive show THIS_FILE.toml' shows how each value is known. [twin.members] lists other drives that explain the measurements
# equally well; 'none' marks a field that a member does not have.
";

/// Serialises `twin`, with `best` as the best estimate and its sources.
#[must_use]
pub fn text(best: &str, spec: &DriveSpec, twin: &Twin) -> String {
    [
        HEAD,
        best,
        &origin(&twin.origin),
        &parameters(&twin.parameters),
        &members(spec, &twin.members),
    ]
    .concat()
}

fn origin(origin: &Origin) -> String {
    let mut table = toml::Table::new();
    table.insert(
        "origin".to_owned(),
        toml::Value::try_from(origin).expect("texts and numbers are TOML"),
    );
    section("twin", table)
}

fn section(name: &str, table: toml::Table) -> String {
    let whole: toml::Table = [(name.to_owned(), toml::Value::Table(table))].into_iter().collect();
    format!("\n{}", text_of(&whole))
}

fn parameters(parameters: &[Parameter]) -> String {
    let line = |one: &Parameter| {
        let table = toml::Table::try_from(one).expect("texts and numbers are TOML");
        let pairs: Vec<String> =
            table.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        format!("    {{ {} }},\n", pairs.join(", "))
    };
    let lines: String = parameters.iter().map(line).collect();
    format!("\n[twin]\nparameters = [\n{lines}]\n")
}

/// One line per member with the values that differ between members.
fn members(spec: &DriveSpec, members: &[DriveSpec]) -> String {
    let flat = |spec: &DriveSpec| {
        let mut values = toml::Table::new();
        let mut table = table(spec);
        table.retain(|key, _| key != "name" && key != "description");
        flatten("", &toml::Value::Table(table), &mut values);
        values
    };
    let all: Vec<toml::Table> = members.iter().map(flat).collect();
    let own = flat(spec);
    let fields: BTreeSet<&String> =
        own.keys().chain(all.iter().flat_map(toml::Table::keys)).collect();
    let differ: Vec<&String> = fields
        .into_iter()
        .filter(|field| all.iter().any(|one| one.get(*field) != own.get(*field)))
        .collect();
    let named: Vec<String> = differ.iter().map(|field| format!("    \"{field}\",\n")).collect();
    let line = |member: &toml::Table| {
        let value = |field: &&String| {
            member.get(*field).map_or_else(|| format!("\"{NONE}\""), ToString::to_string)
        };
        format!("    [{}],\n", differ.iter().map(value).collect::<Vec<_>>().join(", "))
    };
    let lines: String = all.iter().map(line).collect();
    format!("\n[twin.members]\nfields = [\n{}]\nvalues = [\n{lines}]\n", named.concat())
}
