//! The table of a sweep as Parquet: one row per cell, provenance in the metadata,
//! identical on every machine.

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::ops::Range;
use std::sync::Arc;
use trimtab_study::sweep::table::{Cells, Column};

/// Rows per write.
const ROWS: usize = 65_536;

/// Encodes the file with a table of this name.
///
/// # Errors
/// The format cannot represent the table.
pub fn file(
    name: &str,
    columns: &[Column],
    provenance: &[(String, String)],
) -> anyhow::Result<Vec<u8>> {
    let fields =
        columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder(name).with_fields(fields).build()?);
    let metadata =
        provenance.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
    let properties = WriterProperties::builder()
        .set_created_by(concat!("trimtab ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(metadata))
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let rows = columns.first().map_or(0, |column| column.values.len());
    for start in (0..rows).step_by(ROWS) {
        let range = start..rows.min(start + ROWS);
        let mut group = writer.next_row_group()?;
        for column in columns {
            let Some(mut out) = group.next_column()? else { break };
            write(&mut out, column, range.clone())?;
            out.close()?;
        }
        group.close()?;
    }
    Ok(writer.into_inner()?)
}

fn field(column: &Column) -> parquet::errors::Result<Type> {
    let (physical, logical, repetition) = match column.values {
        Cells::Integers(_) => (Physical::INT64, None, Repetition::REQUIRED),
        Cells::Counters(_) => (Physical::INT64, None, Repetition::OPTIONAL),
        Cells::Numbers(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
        Cells::Texts(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::OPTIONAL),
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

fn write(
    out: &mut SerializedColumnWriter<'_>,
    column: &Column,
    rows: Range<usize>,
) -> parquet::errors::Result<usize> {
    match &column.values {
        Cells::Integers(values) => out.typed::<Int64Type>().write_batch(&values[rows], None, None),
        Cells::Counters(values) => {
            let (there, levels) = present(&values[rows], |value| *value);
            out.typed::<Int64Type>().write_batch(&there, Some(&levels), None)
        }
        Cells::Numbers(values) => {
            let (there, levels) = present(&values[rows], |value| *value);
            out.typed::<DoubleType>().write_batch(&there, Some(&levels), None)
        }
        Cells::Texts(values) => {
            let (there, levels) = present(&values[rows], |text| ByteArray::from(text.as_str()));
            out.typed::<ByteArrayType>().write_batch(&there, Some(&levels), None)
        }
    }
}

/// The present values, and a definition level for each row.
fn present<T, V>(values: &[Option<T>], of: impl Fn(&T) -> V) -> (Vec<V>, Vec<i16>) {
    (
        values.iter().flatten().map(of).collect(),
        values.iter().map(|value| i16::from(value.is_some())).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;
    use std::io::Write as _;

    #[test]
    fn parquet_file_is_read_by_parquet_crate() {
        let rows = ROWS + 10;
        let columns = [
            Column {
                name: "cell".into(),
                values: Cells::Integers((0..rows as i64).map(|n| n * 3 - 1).collect()),
            },
            Column {
                name: "waf_ratio".into(),
                values: Cells::Numbers(
                    (0..rows).map(|n| (n % 3 > 0).then(|| n as f64 / 7.0)).collect(),
                ),
            },
            Column {
                name: "counter_x".into(),
                values: Cells::Counters(
                    (0..rows as i64).map(|n| (n % 4 > 0).then_some((1 << 60) + n)).collect(),
                ),
            },
            Column {
                name: "reason".into(),
                values: Cells::Texts(
                    (0..rows).map(|n| (n % 5 == 0).then(|| format!("é {n}"))).collect(),
                ),
            },
        ];
        let provenance = [("trimtab.plan".to_owned(), "[axes]\n".to_owned())];
        let bytes = file("sweep", &columns, &provenance).unwrap();
        assert_eq!(bytes, file("sweep", &columns, &provenance).unwrap());
        let mut scratch = tempfile::tempfile().unwrap();
        scratch.write_all(&bytes).unwrap();
        let reader = SerializedFileReader::new(scratch).unwrap();
        let kept = reader.metadata().file_metadata().key_value_metadata().unwrap();
        assert_eq!(
            (kept[0].key.as_str(), kept[0].value.as_deref()),
            ("trimtab.plan", Some("[axes]\n"))
        );
        let mut n = 0;
        for row in reader.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            assert_eq!(row.get_long(0).unwrap(), n as i64 * 3 - 1);
            assert_eq!(row.get_double(1).ok(), (n % 3 > 0).then(|| n as f64 / 7.0));
            assert_eq!(row.get_long(2).ok(), (n % 4 > 0).then_some((1 << 60) + n as i64));
            assert_eq!(row.get_string(3).ok().cloned(), (n % 5 == 0).then(|| format!("é {n}")));
            n += 1;
        }
        assert_eq!(n, rows);
    }
}
