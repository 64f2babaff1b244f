//! The one integration-test binary. Each module tries the program as a user would.

mod cli;
mod support;
