//! Tables: columns of a sweep, for whoever speaks Arrow (pyarrow, pandas, polars, DuckDB), and for who does not.

use crate::error;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::HashMap;
use std::sync::Arc;
use trimtab_study::sweep::table::{Cells, Column};

/// Columns of equal length, with what they come from.
#[pyclass(frozen, module = "trimtab")]
pub struct Table {
    pub columns: Vec<Column>,
    /// Series and histograms of the same cells, where the plan keeps them.
    pub series: Option<Arc<Vec<Column>>>,
    pub histograms: Option<Arc<Vec<Column>>>,
    pub metadata: Vec<(String, String)>,
}

fn array(values: &Cells) -> (DataType, bool, ArrayRef) {
    match values {
        Cells::Integers(values) => (DataType::Int64, false, Arc::new(Int64Array::from(values.clone()))),
        Cells::Numbers(values) => (DataType::Float64, true, Arc::new(Float64Array::from(values.clone()))),
        Cells::Texts(values) => (DataType::Utf8, true, Arc::new(StringArray::from(values.clone()))),
    }
}

impl Table {
    fn of(&self, columns: Option<&Arc<Vec<Column>>>) -> Option<Self> {
        Some(Self { columns: columns?.to_vec(), series: None, histograms: None, metadata: self.metadata.clone() })
    }

    fn batch(&self) -> PyResult<RecordBatch> {
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for column in &self.columns {
            let (kind, nullable, array) = array(&column.values);
            fields.push(Field::new(&column.name, kind, nullable));
            arrays.push(array);
        }
        let metadata: HashMap<String, String> = self.metadata.iter().cloned().collect();
        RecordBatch::try_new(Arc::new(Schema::new_with_metadata(fields, metadata)), arrays).map_err(|wrong| error(wrong.to_string()))
    }
}

#[pymethods]
impl Table {
    /// The Arrow PyCapsule interface: `pyarrow.table(table)`, `polars.DataFrame(table)`, DuckDB and others take it without a copy.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(&self, py: Python<'py>, requested_schema: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyCapsule>> {
        // What cannot be cast may be given as it is.
        let _ = requested_schema;
        let batch = self.batch()?;
        let schema = batch.schema();
        let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Names of the columns, in their order.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// A column as a list; None where there is nothing.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let column = self.columns.iter().find(|column| column.name == name);
        let column = column.ok_or_else(|| PyKeyError::new_err(format!("there is no column '{name}'")))?;
        match &column.values {
            Cells::Integers(values) => values.into_pyobject(py),
            Cells::Numbers(values) => values.into_pyobject(py),
            Cells::Texts(values) => values.into_pyobject(py),
        }
    }

    /// Every point of every series, where the plan keeps series: `cell`, `series`, `time_ns` or `written_bytes`, `value`, `unit`.
    #[getter]
    fn series(&self) -> Option<Self> {
        self.of(self.series.as_ref())
    }

    /// Every bucket of latencies, where the plan keeps histograms: `cell`, `kind`, `latency_at_most_ns`, `operations`.
    #[getter]
    fn histograms(&self) -> Option<Self> {
        self.of(self.histograms.as_ref())
    }

    /// Where it comes from: plan, model, versions.
    #[getter]
    fn metadata(&self) -> HashMap<String, String> {
        self.metadata.iter().cloned().collect()
    }

    fn __len__(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    fn __repr__(&self) -> String {
        format!("<trimtab.Table of {} rows, {} columns>", self.__len__(), self.columns.len())
    }
}
