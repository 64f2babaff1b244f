//! The lines of PostMark's command language: their parsing, and their extraction from a
//! file or a terminal.

use std::io::{self, BufRead};

/// Characters that are read at once; the rest of a longer line becomes the next line.
const LINE_MAX: usize = 254;

/// A parsed line. The argument is what follows the name and one more character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostmarkCommand<'a> {
    /// Change a setting.
    Set(&'static str, Option<&'a [u8]>),
    /// Run; the report goes to a file.
    Run(Option<&'a [u8]>),
    /// Execute a file.
    Load(Option<&'a [u8]>),
    /// Show the settings, or append them to a file.
    Show(Option<&'a [u8]>),
    /// Help on the commands with this prefix.
    Help(Option<&'a [u8]>),
    /// End the file or the session.
    Quit,
    /// Run in the shell; empty for the user's own shell.
    Shell(&'a [u8]),
    /// Unknown command.
    Unknown,
}

/// The commands in the order of matching, with their help.
const COMMANDS: &[(&str, &str)] = &[
    ("set size", "LOW [HIGH]: sizes of new files in bytes, LOW up to but not including HIGH"),
    ("set number", "N: files created before the transactions"),
    ("set seed", "N: seed of the random numbers; the same seed gives the same operations"),
    ("set transactions", "N: transactions in a run"),
    ("set location", "DIR [WEIGHT], +DIR [WEIGHT] or -DIR: use, add or remove a directory"),
    (
        "set subdirectories",
        "N: spread the files over N subdirectories of each location (2 or more)",
    ),
    ("set read", "BYTES: size of a read call"),
    ("set write", "BYTES: size of a write call"),
    ("set buffering", "true or false: collect calls in a 4096-byte buffer, or one call per block"),
    (
        "set bias read",
        "0 to 10: tenths of transactions that read rather than append; -1 for neither",
    ),
    (
        "set bias create",
        "0 to 10: tenths of transactions that create rather than delete; -1 for neither",
    ),
    ("set report", "verbose or terse"),
    ("run", "[FILE]: run, and print the report or append it to FILE"),
    ("load", "FILE: execute the commands in FILE"),
    ("show", "[FILE]: show the settings, or append them to FILE"),
    ("help", "[START]: list all commands, or those that begin with START"),
    ("quit", "end"),
];

/// Parses a line: the first command whose full name is its prefix.
pub fn parse(line: &[u8]) -> PostmarkCommand<'_> {
    if let Some(rest) = line.strip_prefix(b"!") {
        return PostmarkCommand::Shell(rest);
    }
    let Some((name, _)) = COMMANDS.iter().find(|(name, _)| line.starts_with(name.as_bytes()))
    else {
        return PostmarkCommand::Unknown;
    };
    let argument = line.get(name.len() + 1..);
    match *name {
        "run" => PostmarkCommand::Run(argument),
        "load" => PostmarkCommand::Load(argument),
        "show" => PostmarkCommand::Show(argument),
        "help" => PostmarkCommand::Help(argument),
        name => name
            .strip_prefix("set ")
            .map_or(PostmarkCommand::Quit, |setting| PostmarkCommand::Set(setting, argument)),
    }
}

/// Help on the commands that begin with `start`; on all if none does.
pub fn help(start: &[u8]) -> String {
    let line = |(name, text): &(&str, &str)| format!("{name} - {text}\n");
    let matching: String =
        COMMANDS.iter().filter(|(name, _)| name.as_bytes().starts_with(start)).map(line).collect();
    if matching.is_empty() { COMMANDS.iter().map(line).collect() } else { matching }
}

/// A line as the original reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputLine {
    /// The line without its last character, whatever it is, and without anything after a
    /// NUL.
    pub text: Vec<u8>,
    /// The input ended without a newline, so the removed character was not one.
    pub cut_at_end: bool,
}

/// Reads the next line, or the next piece of a long one.
pub fn read_line(input: &mut dyn BufRead) -> io::Result<Option<InputLine>> {
    let mut text = Vec::new();
    while text.len() < LINE_MAX && text.last() != Some(&b'\n') {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let most = buffer.len().min(LINE_MAX - text.len());
        let take =
            buffer[..most].iter().position(|c| *c == b'\n').map_or(most, |newline| newline + 1);
        text.extend_from_slice(&buffer[..take]);
        input.consume(take);
    }
    if text.is_empty() {
        return Ok(None);
    }
    let cut_at_end = text.len() < LINE_MAX && text.last() != Some(&b'\n');
    if let Some(nul) = text.iter().position(|c| *c == 0) {
        text.truncate(nul);
    }
    text.pop();
    Ok(Some(InputLine { text, cut_at_end }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parse_uses_the_first_matching_command() {
        assert_eq!(parse(b"run"), PostmarkCommand::Run(None));
        assert_eq!(parse(b"runner"), PostmarkCommand::Run(Some(b"er")));
        assert_eq!(parse(b"runx"), PostmarkCommand::Run(Some(b"")));
        assert_eq!(parse(b"quitter"), PostmarkCommand::Quit);
        assert_eq!(parse(b"set sizeX700 800"), PostmarkCommand::Set("size", Some(b"700 800")));
        assert_eq!(parse(b"set size500 600"), PostmarkCommand::Set("size", Some(b"00 600")));
        assert_eq!(parse(b"set bias create -1"), PostmarkCommand::Set("bias create", Some(b"-1")));
        assert_eq!(parse(b"!ls -l"), PostmarkCommand::Shell(b"ls -l"));
        for line in [&b""[..], b" show", b"SHOW", b"set", b"set bias", b"exit now", b"? "] {
            assert_eq!(parse(line), PostmarkCommand::Unknown, "{line:?}");
        }
    }

    #[test]
    fn no_command_is_a_prefix_of_a_later_one() {
        let names: Vec<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(
                !names[..at].iter().any(|earlier| name.starts_with(earlier)),
                "'{name}' is unreachable"
            );
        }
    }

    #[test]
    fn help_lists_matching_commands_or_all() {
        assert_eq!(help(b"set b").lines().count(), 3);
        assert_eq!(help(b"").lines().count(), COMMANDS.len());
        assert_eq!(help(b"zzz"), help(b""));
    }

    fn lines(input: &[u8]) -> Vec<InputLine> {
        let mut input = input;
        std::iter::from_fn(|| read_line(&mut input).unwrap()).collect()
    }

    #[test]
    fn read_line_always_drops_the_last_character() {
        let line = |text: &str, cut_at_end| InputLine { text: text.into(), cut_at_end };
        assert_eq!(
            lines(b"show\n\nquit"),
            [line("show", false), line("", false), line("qui", true)]
        );
        assert_eq!(lines(b"set report terse\r\n"), [line("set report terse\r", false)]);
        assert_eq!(lines(b"ab\0cd\n"), [line("a", false)]);
    }

    #[test]
    fn read_line_splits_long_lines() {
        let input = [vec![b'x'; 300], b"\nshow\n".to_vec()].concat();
        let lengths: Vec<usize> = lines(&input).iter().map(|line| line.text.len()).collect();
        assert_eq!(lengths, [253, 46, 4]);
    }

    proptest! {
        #[test]
        fn read_line_consumes_any_input(input in prop::collection::vec(any::<u8>(), 0..2000)) {
            let all = lines(&input);
            prop_assert!(all.iter().all(|line| line.text.len() < LINE_MAX));
            for line in &all {
                parse(&line.text);
            }
        }
    }
}
