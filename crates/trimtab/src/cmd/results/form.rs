//! Output formats of results.

use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;

/// Format options.
#[derive(Debug, Clone, clap::Args)]
pub struct FormArgs {
    /// Print as text, as Markdown tables, or as tab-separated values for scripts (a line of
    /// names, then plain numbers) [default: text; for lists tsv where standard output is not a
    /// terminal and COLUMNS is not set].
    #[arg(long = "as", value_name = "FORM", value_enum)]
    pub form: Option<Form>,
}

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Text for the screen.
    Text,
    /// Markdown tables.
    Markdown,
    /// Tab-separated values.
    Tsv,
}

impl FormArgs {
    /// The format; rejects a conflict with `--json`.
    pub fn checked(&self, context: &Context) -> Result<Form, UsageError> {
        if context.json && self.form.is_some() {
            return Err(UsageError::new("--json and --as exclude each other"));
        }
        Ok(self.form.unwrap_or(Form::Text))
    }

    /// The format of a list: tab-separated if standard output is not a terminal, unless another
    /// format is given.
    pub fn of_list(&self, context: &Context) -> Result<Form, UsageError> {
        let nobody_reads = trimtab_linux::output::width().is_none() && !context.json;
        let form = self.checked(context)?;
        Ok(if nobody_reads && self.form.is_none() { Form::Tsv } else { form })
    }
}
