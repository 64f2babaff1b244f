//! The table of a sweep as CSV: a header line, then one line per cell; missing figures
//! are empty.

use trimtab_study::sweep::table::{Cells, Column};

/// Encodes the file.
///
/// # Errors
/// Writing to memory does not fail.
pub fn file(columns: &[Column]) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns.iter().map(|column| column.name.as_str()))?;
    for row in 0..columns.first().map_or(0, |column| column.values.len()) {
        writer.write_record(columns.iter().map(|column| match &column.values {
            Cells::Integers(values) => values[row].to_string(),
            Cells::Counters(values) => {
                values[row].map_or_else(String::new, |value| value.to_string())
            }
            Cells::Numbers(values) => {
                values[row].map_or_else(String::new, |value| value.to_string())
            }
            Cells::Texts(values) => values[row].clone().unwrap_or_default(),
        }))?;
    }
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}
