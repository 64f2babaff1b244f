//! In which form results are printed.

use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;

/// How to print.
#[derive(Debug, Clone, clap::Args)]
pub struct FormArgs {
    /// Print as text, as Markdown tables, or as tab-separated values for scripts (a line of names, then plain numbers) [default: text; for lists
    /// tsv where standard output is not a terminal and COLUMNS is not set].
    #[arg(long = "as", value_name = "FORM", value_enum)]
    pub form: Option<Form>,
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
        if context.json && self.form.is_some() {
            return Err(UsageError::new("--json and --as exclude each other"));
        }
        Ok(self.form.unwrap_or(Form::Text))
    }

    /// The form of a list, whose rows a program reads where no screen is: tab-separated there, unless it was said otherwise.
    pub fn of_list(&self, context: &Context) -> Result<Form, UsageError> {
        let nobody_reads = trimtab_linux::output::width().is_none() && !context.json;
        let form = self.checked(context)?;
        Ok(if nobody_reads && self.form.is_none() { Form::Tsv } else { form })
    }
}
