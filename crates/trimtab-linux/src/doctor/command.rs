//! Command lines of systemd services (`ExecStart=`).

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceCommand {
    pub program: String,
    pub arguments: Vec<String>,
    /// Prefix `-`: a failure does not stop the service.
    pub may_fail: bool,
    /// A word that only systemd can expand.
    pub open: Option<String>,
}

/// Parses the commands of one value; a standalone `;` separates them.
pub fn parse(value: &str) -> Vec<ServiceCommand> {
    words(value).split(|word| word == ";").filter(|words| !words.is_empty()).map(command).collect()
}

fn command(words: &[String]) -> ServiceCommand {
    let first = words.first().map(String::as_str).unwrap_or_default();
    let program = first.trim_start_matches(['@', '-', ':', '+', '!', '|']);
    let marks = &first[..first.len() - program.len()];
    let (expands, skipped) = (!marks.contains(':'), if marks.contains('@') { 2 } else { 1 });
    let mut open = marks.contains('|').then(|| "a shell".to_owned());
    let mut arguments = Vec::new();
    for word in words.iter().skip(skipped) {
        let variable = expands && word.replace("$$", "").contains('$');
        if variable || word.replace("%%", "").contains('%') {
            open.get_or_insert_with(|| word.clone());
        }
        let word = word.replace("%%", "%");
        arguments.push(if word == "\\;" {
            ";".to_owned()
        } else if expands {
            word.replace("$$", "$")
        } else {
            word
        });
    }
    if program.contains('%') {
        open.get_or_insert_with(|| program.to_owned());
    }
    ServiceCommand { program: program.to_owned(), arguments, may_fail: marks.contains('-'), open }
}

/// Splits at white space outside quotes; a backslash escapes the next character.
fn words(value: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, c) if c.is_ascii_whitespace() => {
                if std::mem::take(&mut begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (None, '"' | '\'') => (quote, begun) = (Some(character), true),
            (Some(open), c) if c == open => quote = None,
            (_, '\\') => {
                let next = characters.next().unwrap_or('\\');
                match next {
                    ';' if word.is_empty() && quote.is_none() => word.push_str("\\;"),
                    's' => word.push(' '),
                    't' => word.push('\t'),
                    'n' => word.push('\n'),
                    other => word.push(other),
                }
                begun = true;
            }
            (_, c) => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_command_is_split_like_systemd() {
        let parsed = |value: &str| {
            let shown = |c: ServiceCommand| {
                format!(
                    "{} {:?} {} {}",
                    c.program,
                    c.arguments,
                    c.may_fail,
                    c.open.unwrap_or_default()
                )
            };
            parse(value).into_iter().map(shown).collect::<Vec<_>>()
        };
        for (value, expected) in [
            ("/sbin/fstrim -Av", vec![r#"/sbin/fstrim ["-Av"] false "#]),
            ("-/sbin/fstrim \"/my home\" 'a b'", vec![r#"/sbin/fstrim ["/my home", "a b"] true "#]),
            ("@/sbin/fstrim fstrim -a", vec![r#"/sbin/fstrim ["-a"] false "#]),
            ("+!/sbin/fstrim /", vec![r#"/sbin/fstrim ["/"] false "#]),
            (
                "/bin/true ; /sbin/fstrim /",
                vec![r#"/bin/true [] false "#, r#"/sbin/fstrim ["/"] false "#],
            ),
            ("/bin/echo a \\; b;", vec![r#"/bin/echo ["a", ";", "b;"] false "#]),
            ("/sbin/fstrim $OPTIONS /", vec![r#"/sbin/fstrim ["$OPTIONS", "/"] false $OPTIONS"#]),
            (":/sbin/fstrim /$x", vec![r#"/sbin/fstrim ["/$x"] false "#]),
            ("/sbin/fstrim /100%% /$$x", vec![r#"/sbin/fstrim ["/100%", "/$x"] false "#]),
            ("/sbin/fstrim %I", vec![r#"/sbin/fstrim ["%I"] false %I"#]),
            ("", vec![]),
        ] {
            assert_eq!(parsed(value), expected, "{value}");
        }
    }
}
