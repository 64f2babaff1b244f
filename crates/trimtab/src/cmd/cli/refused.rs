//! A value that an option does not take, in one line: what, where, what would be right.
//!
//! What the standard library says of numbers ("invalid digit found in string") tells nobody what is wanted. The parser of an option knows its range and
//! says it of a number outside, so it is asked with one.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;
use std::num::{ParseFloatError, ParseIntError};

/// Below every range.
const TOO_SMALL: &str = "-9223372036854775808";

/// What was refused, and where more is said; `None` for errors that are not about a value.
pub fn value(error: &clap::Error, words: &[String], command: &clap::Command) -> Option<(String, String)> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let (option, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    // An option that was given none is told so.
    if error.kind() == ErrorKind::InvalidValue && value.is_empty() {
        return None;
    }
    let path = path(words, command);
    if let Some(ContextValue::Strings(all)) = error.get(ContextKind::ValidValue) {
        return Some((format!("invalid value '{value}' for '{option}': expected {}", listed(all)), more(&path)));
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

fn more(path: &[String]) -> String {
    format!("'{} --help' says more", path.join(" "))
}

/// "reads, small or full".
fn listed(all: &[String]) -> String {
    match all {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => all.concat(),
    }
}

/// The same of a word that begins like a negative number and is none, which the parser takes for an option: `--wait -1s`. Behind an option it is its value.
pub fn joined(error: &clap::Error, words: &[String], command: &clap::Command) -> Option<(String, String)> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    let digit = |word: &str| word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'));
    let at = words.iter().position(|word| digit(word) && word.starts_with(unknown.as_str()))?;
    let option = words.get(at.checked_sub(1)?).filter(|option| option.starts_with('-') && !option.contains('=') && !digit(option))?;
    let value_of = format!("{option}={}", words[at]);
    let mut again = words.to_vec();
    again.splice(at - 1..=at, [value_of.clone()]);
    match command.clone().try_get_matches_from(&again) {
        Err(error) if error.kind() == ErrorKind::ValueValidation => value(&error, &again, command),
        // An option that is not there, or that takes no value.
        Err(error) if matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::TooManyValues | ErrorKind::InvalidValue) => None,
        _ => Some((format!("'{}' is taken for an option", words[at]), format!("write {value_of} if it is a value of {option}"))),
    }
}

/// The command of a line, with its subcommands.
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

/// What its parser says of a number that is too small: " from 1 to 1000".
fn asked(path: &[String], option: &str, command: &clap::Command) -> Option<String> {
    let name = option.split(' ').next()?;
    let words = path.iter().cloned().chain([format!("{name}={TOO_SMALL}")]);
    let refused = command.clone().try_get_matches_from(words).err()?;
    let source = refused.source()?;
    // Types without a sign say no more than that there is a digit which is none.
    if source.is::<ParseIntError>() { Some(", 0 or more".to_owned()) } else { range(&source.to_string()) }
}

/// "-5 is not in 1..=1000" as " from 1 to 1000".
fn range(said: &str) -> Option<String> {
    let (least, most) = said.split_once(" is not in ")?.1.split_once("..=")?;
    Some(format!(" from {least} to {most}"))
}
