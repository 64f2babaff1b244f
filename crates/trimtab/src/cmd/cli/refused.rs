//! Usage errors in one line, each with the next step. For a value that an option refuses:
//! the value, the option, and what it accepts.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;
use std::num::{ParseFloatError, ParseIntError};
use trimtab_drive::usage::UsageError;

/// The error message and the hint; `None` for errors that are not about a value.
pub fn value(error: &clap::Error, words: &[String], command: &clap::Command) -> Option<UsageError> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let (option, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    // clap's own message covers an option without a value.
    if error.kind() == ErrorKind::InvalidValue && value.is_empty() {
        return None;
    }
    let path = path(words, command);
    if let Some(ContextValue::Strings(all)) = error.get(ContextKind::ValidValue) {
        let what = format!("invalid value '{value}' for '{option}': expected {}", listed(all));
        return Some(UsageError::new(what).hint(more(&path)));
    }
    let source = error.source()?;
    let expected = if source.is::<ParseIntError>() {
        "expected a whole number".to_owned()
    } else if source.is::<ParseFloatError>() {
        "expected a number".to_owned()
    } else {
        let said = source.to_string();
        range(&said).map_or(said, |range| format!("expected a whole number{range}"))
    };
    let what = format!("invalid value '{value}' for '{option}': {expected}");
    Some(UsageError::new(what).hint(more(&path)))
}

/// Any other usage error: clap's first paragraph, and its tips or else the usage. `None`
/// if clap prints help instead of an error.
pub fn usage(error: &clap::Error, words: &[String], command: &clap::Command) -> Option<UsageError> {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return None;
    }
    if let Some(refused) = negative(error, words) {
        return Some(refused.hint(more(&path(words, command))));
    }
    let text = error.render().to_string();
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = text.split("\n\n");
    let what = one_line(paragraphs.next()?.strip_prefix("error: ")?);
    let tips: Vec<String> =
        text.lines().filter_map(|line| line.trim().strip_prefix("tip: ").map(one_line)).collect();
    let usage = paragraphs.find_map(|paragraph| paragraph.strip_prefix("Usage: "));
    let hint = match usage {
        _ if !tips.is_empty() => tips.join("; "),
        Some(usage) if error.kind() == ErrorKind::MissingRequiredArgument => {
            format!("usage: {}", one_line(usage))
        }
        _ => more(&path(words, command)),
    };
    Some(UsageError::new(what).hint(hint))
}

/// The error for a negative value with a unit, which clap takes for an option.
fn negative(error: &clap::Error, words: &[String]) -> Option<UsageError> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let is_negative = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut pairs =
        words.iter().zip(words.iter().skip(1)).take_while(|(option, _)| *option != "--");
    let (option, value) =
        pairs.find(|(option, value)| option.starts_with("--") && is_negative(value))?;
    let what = format!("invalid value '{value}' for '{option}': it must not be negative");
    Some(UsageError::new(what))
}

fn more(path: &[String]) -> String {
    format!("'{} --help' says more", path.join(" "))
}

/// "idle, online or none".
fn listed(all: &[String]) -> String {
    match all {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => all.concat(),
    }
}

/// The command path of a command line, with its subcommands.
fn path(words: &[String], command: &clap::Command) -> Vec<String> {
    let (mut at, mut path) = (command, vec![command.get_name().to_owned()]);
    for word in words.iter().skip(1).take_while(|word| *word != "--") {
        if let Some(sub) = at.find_subcommand(word) {
            path.push(sub.get_name().to_owned());
            at = sub;
        }
    }
    path
}

/// "-5 is not in 1..=1000" as " from 1 to 1000".
fn range(said: &str) -> Option<String> {
    let (least, most) = said.split_once(" is not in ")?.1.split_once("..=")?;
    Some(format!(" from {least} to {most}"))
}
