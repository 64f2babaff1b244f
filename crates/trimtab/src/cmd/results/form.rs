//! In which form results are printed.

use crate::output::Context;
use trimtab_core::usage::UsageError;

/// How to print.
#[derive(Debug, Clone, clap::Args)]
pub struct FormArgs {
    /// Print as text, as Markdown tables, or as tab-separated values for scripts (a line of names, then plain numbers).
    #[arg(long = "as", value_name = "FORM", value_enum, default_value_t = Form::Text)]
    pub form: Form,
}

/// A form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// For the screen.
    Text,
    /// Tables in Markdown.
    Markdown,
    /// Tab-separated values.
    Tsv,
}

impl FormArgs {
    /// The form, unless `--json` says another.
    pub fn checked(&self, context: &Context) -> Result<Form, UsageError> {
        if context.json && self.form != Form::Text {
            return Err(UsageError::new("--json and --as exclude each other"));
        }
        Ok(self.form)
    }
}
