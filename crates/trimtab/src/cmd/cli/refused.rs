//! Usage errors in one line, each with the next step. For a value that an option refuses:
//! the value, the option, and what it accepts.
//!
//! The standard library's messages for numbers ("invalid digit found in string") do not
//! name the accepted range. An option's parser names it for a number outside its range,
//! so this module parses such a number to obtain the message.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;
use std::num::{ParseFloatError, ParseIntError};

/// A number below every option's range.
const TOO_SMALL: &str = "-9223372036854775808";

/// The error message and the hint; `None` for errors that are not about a value.
pub fn value(
    error: &clap::Error,
    words: &[String],
    command: &clap::Command,
) -> Option<(String, String)> {
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
        return Some((
            format!("invalid value '{value}' for '{option}': expected {}", listed(all)),
            more(&path),
        ));
    }
    let source = error.source()?;
    let expected = if source.is::<ParseIntError>() {
        format!("expected a whole number{}", asked(&path, &option, command).unwrap_or_default())
    } else if source.is::<ParseFloatError>() {
        "expected a number".to_owned()
    } else {
        let said = source.to_string();
        range(&said).map_or(said, |range| format!("expected a whole number{range}"))
    };
    Some((format!("invalid value '{value}' for '{option}': {expected}"), more(&path)))
}

/// Any other usage error: clap's first paragraph, and its tips or else the usage. `None`
/// if clap prints help instead of an error.
pub fn usage(
    error: &clap::Error,
    words: &[String],
    command: &clap::Command,
) -> Option<(String, String)> {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return None;
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
    Some((what, hint))
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

/// The same for a word that begins like a negative number but is not one, which the
/// parser takes for an option: `--wait -1s`. After an option it is that option's value.
pub fn joined(
    error: &clap::Error,
    words: &[String],
    command: &clap::Command,
) -> Option<(String, String)> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let digit = |word: &str| {
        word.strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    };
    let at = words.iter().position(|word| digit(word) && word.starts_with(unknown.as_str()))?;
    let option = words
        .get(at.checked_sub(1)?)
        .filter(|option| option.starts_with('-') && !option.contains('=') && !digit(option))?;
    let value_of = format!("{option}={}", words[at]);
    let mut again = words.to_vec();
    again.splice(at - 1..=at, [value_of.clone()]);
    match command.clone().try_get_matches_from(&again) {
        Err(error) if error.kind() == ErrorKind::ValueValidation => value(&error, &again, command),
        // An unknown option, or one that takes no value.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::UnknownArgument | ErrorKind::TooManyValues | ErrorKind::InvalidValue
            ) =>
        {
            None
        }
        _ => Some((
            format!("'{}' is taken for an option", words[at]),
            format!("write {value_of} if it is a value of {option}"),
        )),
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

/// The range that the option's parser reports for a number that is too small: " from 1 to
/// 1000".
fn asked(path: &[String], option: &str, command: &clap::Command) -> Option<String> {
    let name = option.split(' ').next()?;
    let words = path.iter().cloned().chain([format!("{name}={TOO_SMALL}")]);
    let refused = command.clone().try_get_matches_from(words).err()?;
    let source = refused.source()?;
    // Parsers of unsigned types report only an invalid digit.
    if source.is::<ParseIntError>() {
        Some(", 0 or more".to_owned())
    } else {
        range(&source.to_string())
    }
}

/// "-5 is not in 1..=1000" as " from 1 to 1000".
fn range(said: &str) -> Option<String> {
    let (least, most) = said.split_once(" is not in ")?.1.split_once("..=")?;
    Some(format!(" from {least} to {most}"))
}
