//! Reader of a table as Parquet.

use super::{Columns, VALUE_MAX, is_possible, known_columns};
use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;

/// Begin of every file.
pub const MAGIC: &[u8] = b"PAR1";

/// Names of the rows and values of the known columns. Null and NaN are unknown.
pub fn columns(bytes: Vec<u8>, notes: &mut Vec<String>) -> Result<(Vec<String>, Columns), String> {
    let broken = |error: ParquetError| {
        let problem = error.to_string();
        format!("unreadable as Parquet: {}", problem.lines().next().unwrap_or_default())
    };
    let reader = SerializedFileReader::new(Bytes::from(bytes)).map_err(broken)?;
    let chunks = reader.metadata().row_groups().iter().flat_map(|rows| rows.columns());
    let codec = chunks.map(|chunk| chunk.compression());
    let mut unknown =
        codec.filter(|codec| !matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY));
    if let Some(codec) = unknown.next() {
        let codec = codec.to_string();
        let name = codec.split('(').next().unwrap_or_default().to_lowercase();
        return Err(format!("compressed with {name}; write it uncompressed or with Snappy"));
    }
    let fields = reader.metadata().file_metadata().schema().get_fields().to_vec();
    let header: Vec<&str> = fields.iter().map(|field| field.name()).collect();
    let known = known_columns(&header, notes)?;
    let (mut places, mut columns) = (Vec::new(), Columns::new());
    for (name, field) in known.iter().zip(&fields) {
        let Some(name) = name else { continue };
        if !is_number(field) {
            return Err(format!("column {name} is not a number (times are in seconds)"));
        }
        columns.insert(name, Vec::new());
    }
    for (nth, row) in (1..).zip(reader.get_row_iter(None).map_err(broken)?) {
        let row = row.map_err(broken)?;
        for (name, (_, field)) in known.iter().zip(row.get_column_iter()) {
            let Some(name) = name else { continue };
            let value = number(field).filter(|value| !value.is_nan());
            if let Some(value) = value.filter(|value| !is_possible(name, *value)) {
                return Err(format!(
                    "row {nth}: column {name} holds {value}, not a number from 0 to {VALUE_MAX:e}"
                ));
            }
            columns.entry(name).or_default().push(value);
        }
        places.push(format!("row {nth}"));
    }
    Ok((places, columns))
}

fn is_number(field: &Type) -> bool {
    let logical = field.get_basic_info().logical_type_ref();
    let plain = matches!(logical, None | Some(LogicalType::Integer { .. }));
    let numeric = [Physical::INT32, Physical::INT64, Physical::FLOAT, Physical::DOUBLE];
    field.is_primitive() && plain && numeric.contains(&field.get_physical_type())
}

fn number(field: &Field) -> Option<f64> {
    Some(match field {
        Field::Byte(value) => f64::from(*value),
        Field::Short(value) => f64::from(*value),
        Field::Int(value) => f64::from(*value),
        Field::Long(value) => *value as f64,
        Field::UByte(value) => f64::from(*value),
        Field::UShort(value) => f64::from(*value),
        Field::UInt(value) => f64::from(*value),
        Field::ULong(value) => *value as f64,
        Field::Float(value) => f64::from(*value),
        Field::Double(value) => *value,
        _ => return None,
    })
}
