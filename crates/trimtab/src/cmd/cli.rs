//! The command line: its parser and its help.

use crate::cmd::CliCommand;
use crate::cmd::options::GlobalOptions;
use clap::{CommandFactory as _, Parser};
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output;

mod refused;

const EXAMPLES: &str = "Exit status: 0 done; 1 failed, or a named file, drive or run does not exist or \
    cannot be used; 2 wrong usage (an unknown option, a bad value, an unknown policy); 130 \
    interrupted (SIGINT, SIGTERM or SIGHUP). doctor, trim and verify also report their \
    verdict: 3 TRIM is blocked, lost or does damage; 4 unknown or not proved. The same fault has \
    the same status in every command. With --json, an error is a JSON document on standard \
    output (schema trimtab.error), unless the result was printed before it. Run 'trimtab \
    COMMAND --help' for details.";

/// Measures what TRIM, fill and time do to a drive, recommends a trim policy, and keeps
/// the drive trimmed.
#[derive(Debug, Parser)]
#[command(name = "trimtab", version, about, after_help = EXAMPLES, propagate_version = true)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalOptions,
    /// The command to run.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// Prints help and versions to standard output, and usage errors to standard error
/// (status 2). Usage errors quote the user's words, which are escaped.
pub fn explain(error: &clap::Error) -> ExitCode {
    let text = error.render();
    if error.use_stderr() {
        let words: Vec<String> =
            std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let said = said(error, &words, &command());
        let shown =
            said.as_ref().map_or_else(|| text.to_string(), |said| format!("trimtab: {said}"));
        anstream::eprint!("{}", output::on_stderr(output::plain(&shown).trim_end()));
        if let Some(said) = said.filter(|_| asks_for_json()) {
            output::error::print_document(&said.into());
        }
        return ExitCode::from(trimtab_linux::output::error::USAGE);
    }
    match output::print_styled(&text.ansi().to_string()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => trimtab_linux::output::error::print_and_exit_code(&error, false),
    }
}

/// The error for `words` that `whole` refuses; `None` if clap prints help instead.
pub fn said(error: &clap::Error, words: &[String], whole: &clap::Command) -> Option<UsageError> {
    refused::value(error, words, whole).or_else(|| refused::usage(error, words, whole))
}

/// The command line as it is parsed. Options take negative numbers and reject them with a
/// range.
pub fn command() -> clap::Command {
    prepared(Cli::command())
}

fn prepared(command: clap::Command) -> clap::Command {
    // Positional arguments are paths and names, which may begin with a dash only after
    // '--'.
    let negative = |arg: clap::Arg| {
        let takes =
            arg.get_num_args().is_none_or(|n| n.takes_values()) && arg.get_action().takes_values();
        if takes && !arg.is_positional() { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(negative).mut_subcommands(prepared)
}

/// Reports whether the command line, valid or not, contains `--json`.
pub fn asks_for_json() -> bool {
    std::env::args_os().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_accepts_negative_option_values() {
        let refused = |args: &[&str]| {
            let all = ["trimtab"].into_iter().chain(args.iter().copied());
            command().try_get_matches_from(all).unwrap_err().to_string()
        };
        for args in [
            &["drive", "simulate", "--drive", "x", "--fill", "-5"][..],
            &["bench", "tree", "--files", "-5"],
            &["wear", "--years", "-5"],
            &["study", "--repeats", "-5"],
        ] {
            let said = refused(args);
            assert!(
                said.contains("invalid value '-5'") && !said.contains("tip:"),
                "{args:?}: {said}"
            );
        }
    }

    #[test]
    fn error_for_bad_value_names_the_expected_range() {
        let said = |words: &[&str]| {
            let words: Vec<String> =
                ["trimtab"].iter().chain(words).map(|&word| word.to_owned()).collect();
            let error = command().try_get_matches_from(&words).unwrap_err();
            refused::value(&error, &words, &command())
        };
        let whole = |words: &[&str]| said(words).unwrap().message().to_owned();
        assert!(whole(&["study", "--repeats", "abc"]).ends_with(": expected a whole number"));
        for value in ["-5", "1001"] {
            let error = said(&["study", "--repeats", value]).unwrap();
            assert_eq!(
                error.message(),
                format!(
                    "invalid value '{value}' for '--repeats <N>': expected a whole \
                        number from 1 to 1000"
                )
            );
            assert_eq!(error.advice(), Some("'trimtab study --help' says more"));
        }
        let what = whole(&["drive", "learn", "x", "--budget", "nonsense"]);
        assert_eq!(
            what,
            "invalid value 'nonsense' for '--budget <BUDGET>': expected small or full"
        );
        assert!(
            said(&["drive", "learn", "x", "--budget"]).is_none(),
            "a missing value is not an invalid value"
        );
        assert!(
            whole(&["--quiet", "bench", "postmark", "--tries=10001"])
                .ends_with("expected a whole number from 1 to 10000")
        );
        assert!(
            whole(&["bench", "crystal", "--size", "x"])
                .ends_with("'x' is not a size such as 4096, 4KiB, 500MB or 1.8TB")
        );
        assert!(
            whole(&["bench", "crystal", "--size", "20000PB"])
                .ends_with("'20000PB' is not a size below 18.4 EB")
        );
        assert_eq!(said(&["study", "--nonsense"]), None);
    }

    #[test]
    fn usage_error_is_one_line_with_the_next_step() {
        for (words, shown) in [
            (
                &["stduy", "/"][..],
                "trimtab: unrecognized subcommand 'stduy'; a similar subcommand exists: 'study'",
            ),
            (
                &["study", "--polices", "x"],
                "trimtab: unexpected argument '--polices' found; a similar argument \
                    exists: '--policies'",
            ),
            (
                &["wear", "--tbw", "-5TB"],
                "trimtab: invalid value '-5TB' for '--tbw': it must not be negative; \
                    'trimtab wear --help' says more",
            ),
            (
                &["verify"],
                "trimtab: the following required arguments were not provided: <PATH>; \
                    usage: trimtab verify <PATH>",
            ),
            (
                &["trim"],
                "trimtab: the following required arguments were not provided: \
                    <PATHS>...; usage: trimtab trim [OPTIONS] <PATHS...|--all>",
            ),
            (
                &["trim", "--all", "/"],
                "trimtab: the argument '--all' cannot be used with '[PATHS]...'; \
                    'trimtab trim --help' says more",
            ),
        ] {
            let words: Vec<String> =
                ["trimtab"].iter().chain(words).map(|&word| word.to_owned()).collect();
            let error = command().try_get_matches_from(&words).unwrap_err();
            let said = said(&error, &words, &command()).unwrap();
            assert_eq!(format!("trimtab: {said}"), shown);
        }
    }
}
