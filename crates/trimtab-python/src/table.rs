//! Tables of sweep results for Arrow consumers and as plain Python values.

use crate::error;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use std::collections::HashMap;
use std::sync::Arc;
use trimtab_study::sweep::table::{Cells, Column};

/// Columns of equal length, with metadata.
#[pyclass(frozen, module = "trimtab")]
pub struct Table {
    pub columns: Vec<Column>,
    pub metadata: Vec<(String, String)>,
}

fn array(values: &Cells) -> (DataType, bool, ArrayRef) {
    match values {
        Cells::Integers(values) => {
            (DataType::Int64, false, Arc::new(Int64Array::from(values.clone())))
        }
        Cells::Counters(values) => {
            (DataType::Int64, true, Arc::new(Int64Array::from(values.clone())))
        }
        Cells::Numbers(values) => {
            (DataType::Float64, true, Arc::new(Float64Array::from(values.clone())))
        }
        Cells::Texts(values) => (DataType::Utf8, true, Arc::new(StringArray::from(values.clone()))),
    }
}

fn list<'py>(py: Python<'py>, column: &Column) -> PyResult<Bound<'py, PyAny>> {
    match &column.values {
        Cells::Integers(values) => values.into_pyobject(py),
        Cells::Counters(values) => values.into_pyobject(py),
        Cells::Numbers(values) => values.into_pyobject(py),
        Cells::Texts(values) => values.into_pyobject(py),
    }
}

impl Table {
    fn batch(&self) -> PyResult<RecordBatch> {
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for column in &self.columns {
            let (kind, nullable, array) = array(&column.values);
            fields.push(Field::new(&column.name, kind, nullable));
            arrays.push(array);
        }
        let metadata: HashMap<String, String> = self.metadata.iter().cloned().collect();
        RecordBatch::try_new(Arc::new(Schema::new_with_metadata(fields, metadata)), arrays)
            .map_err(|wrong| error(wrong.to_string()))
    }
}

#[pymethods]
impl Table {
    /// Arrow PyCapsule interface: `pyarrow.table(table)`, `polars.DataFrame(table)`,
    /// DuckDB and others read the table without a copy.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface permits ignoring a schema that cannot be cast.
        let _ = requested_schema;
        let batch = self.batch()?;
        let schema = batch.schema();
        let stream =
            FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Column names in order.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// A column as a list; None for missing values.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let column = self.columns.iter().find(|column| column.name == name);
        list(py, column.ok_or_else(|| PyKeyError::new_err(format!("there is no column '{name}'")))?)
    }

    /// `table["waf_ratio"]` is shorthand for `table.column("waf_ratio")`.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.column(py, name)
    }

    /// All columns as lists, by name.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        self.columns.iter().try_for_each(|column| all.set_item(&column.name, list(py, column)?))?;
        Ok(all)
    }

    /// Iterates over rows as dictionaries, as `pandas.DataFrame(table)` expects.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let lists =
            self.columns.iter().map(|column| list(py, column)).collect::<PyResult<Vec<_>>>()?;
        let rows = (0..self.__len__()).map(|at| {
            let row = PyDict::new(py);
            self.columns
                .iter()
                .zip(&lists)
                .try_for_each(|(column, list)| row.set_item(&column.name, list.get_item(at)?))?;
            Ok(row)
        });
        PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)?.call_method0("__iter__")
    }

    /// Origin of the table: plan, model, versions.
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
