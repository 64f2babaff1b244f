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
            Cells::Texts(values) => text(values[row].as_deref().unwrap_or_default()),
        }))?;
    }
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}

/// A text, which a spreadsheet must not take for a formula.
fn text(value: &str) -> String {
    let is_formula = value.starts_with(['=', '+', '-', '@']);
    format!("{}{value}", if is_formula { "'" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_no_formulas_and_numbers_stay() {
        let texts = ["=1+1", "+1", "-1", "@SUM(A1)", "a=1", "x,y"];
        let texts = texts.iter().map(|text| Some((*text).to_owned())).collect();
        let columns = [
            Column { name: "name".to_owned(), values: Cells::Texts(texts) },
            Column { name: "n".to_owned(), values: Cells::Numbers(vec![Some(-1.5); 6]) },
        ];
        let csv = String::from_utf8(file(&columns).unwrap()).unwrap();
        let expected = "name,n\n'=1+1,-1.5\n'+1,-1.5\n'-1,-1.5\n'@SUM(A1),-1.5\na=1,-1.5\n\
            \"x,y\",-1.5\n";
        assert_eq!(csv, expected);
    }
}
