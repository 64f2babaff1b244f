//! Small linear systems with a symmetric positive definite matrix (Cholesky).

use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Debug)]
pub(in crate::learn) struct Matrix {
    size: usize,
    values: Vec<f64>,
}

impl Matrix {
    pub(in crate::learn) fn new(size: usize) -> Self {
        Self { size, values: vec![0.0; size * size] }
    }

    pub(in crate::learn) fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.size + column]
    }

    pub(in crate::learn) fn set(&mut self, row: usize, column: usize, value: f64) {
        self.values[row * self.size + column] = value;
        self.values[column * self.size + row] = value;
    }

    pub(in crate::learn) fn times(&self, vector: &[f64]) -> Vec<f64> {
        self.values
            .chunks(self.size)
            .map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
            .collect()
    }

    /// The lower Cholesky factor, row by row; `None` if the matrix is not positive
    /// definite.
    pub(in crate::learn) fn root(&self) -> Option<Vec<f64>> {
        let size = self.size;
        let mut root = vec![0.0; size * size];
        for row in 0..size {
            for column in 0..=row {
                let known: f64 =
                    (0..column).map(|k| root[row * size + k] * root[column * size + k]).sum();
                let rest = self.at(row, column) - known;
                root[row * size + column] = if row == column {
                    if rest <= 0.0 || !rest.is_finite() {
                        return None;
                    }
                    libm::sqrt(rest)
                } else {
                    rest / root[column * size + column]
                };
            }
        }
        Some(root)
    }

    /// Solves `self * x = right`.
    pub(in crate::learn) fn solve(&self, right: &[f64]) -> Option<Vec<f64>> {
        let root = self.root()?;
        Some(self.solve_by(&root, right))
    }

    fn solve_by(&self, root: &[f64], right: &[f64]) -> Vec<f64> {
        let size = self.size;
        let mut x = right.to_vec();
        for row in 0..size {
            let known: f64 = (0..row).map(|k| root[row * size + k] * x[k]).sum();
            x[row] = (x[row] - known) / root[row * size + row];
        }
        for row in (0..size).rev() {
            let known: f64 = (row + 1..size).map(|k| root[k * size + row] * x[k]).sum();
            x[row] = (x[row] - known) / root[row * size + row];
        }
        x
    }

    pub(in crate::learn) fn inverse(&self) -> Option<Self> {
        let root = self.root()?;
        let mut inverse = Self::new(self.size);
        for column in 0..self.size {
            let unit: Vec<f64> =
                (0..self.size).map(|row| f64::from(u8::from(row == column))).collect();
            for (row, value) in self.solve_by(&root, &unit).into_iter().enumerate() {
                inverse.values[row * self.size + column] = value;
            }
        }
        Some(inverse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrix_times_inverse_is_identity() {
        let mut matrix = Matrix::new(3);
        for (row, column, value) in
            [(0, 0, 4.0), (1, 0, 1.0), (1, 1, 3.0), (2, 0, -0.5), (2, 1, 0.25), (2, 2, 2.0)]
        {
            matrix.set(row, column, value);
        }
        let inverse = matrix.inverse().unwrap();
        for row in 0..3 {
            let line: Vec<f64> = (0..3)
                .map(|column| (0..3).map(|k| matrix.at(row, k) * inverse.at(k, column)).sum())
                .collect();
            for (column, value) in line.into_iter().enumerate() {
                assert!((value - f64::from(u8::from(row == column))).abs() < 1e-12);
            }
        }
        let back = matrix.times(&matrix.solve(&[1.0, 2.0, 3.0]).unwrap());
        assert!(back.iter().zip([1.0, 2.0, 3.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{back:?}");
        let mut indefinite = Matrix::new(2);
        indefinite.set(1, 0, 1.0);
        assert!(indefinite.solve(&[1.0, 1.0]).is_none());
    }
}
