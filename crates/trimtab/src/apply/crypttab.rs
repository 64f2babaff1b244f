//! Adds the option `discard` to one line of `/etc/crypttab`; every other byte stays.

use super::fstab::{FstabError, fields};

/// The text with the option `discard` in the line of `name`.
pub fn with_discard(text: &str, name: &str) -> Result<String, FstabError> {
    let (mut found, mut at) = (Vec::new(), 0);
    for line in text.split_inclusive('\n') {
        let fields = fields(line);
        if fields.len() >= 2 && &line[fields[0].clone()] == name {
            found.push((at, line, fields));
        }
        at += line.len();
    }
    let [(at, line, fields)] = found.as_slice() else {
        return Err(if found.is_empty() { FstabError::NotListed } else { FstabError::Twice });
    };
    let with = |end: usize, addition: &str| {
        format!("{}{addition}{}", &text[..at + end], &text[at + end..])
    };
    Ok(match fields.get(3) {
        Some(options) if line[options.clone()].split(',').any(|option| option == "discard") => {
            text.to_owned()
        }
        Some(options) => with(options.end, ",discard"),
        None if fields.len() == 3 => with(fields[2].end, " discard"),
        None => with(fields[1].end, " none discard"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn with_discard_adds_one_option_to_one_line() {
        let text = "# home of users\nhome\tUUID=1  none luks,timeout=9\nroot /dev/sda2 /key\n\
            swap /dev/sda3\n";
        let changed = |name: &str| {
            let after = with_discard(text, name).unwrap();
            assert_eq!(with_discard(&after, name).unwrap(), after, "a second time changes nothing");
            after
                .lines()
                .zip(text.lines())
                .find(|(a, b)| a != b)
                .map(|(a, _)| a.to_owned())
                .unwrap()
        };
        assert_eq!(changed("home"), "home\tUUID=1  none luks,timeout=9,discard");
        assert_eq!(changed("root"), "root /dev/sda2 /key discard");
        assert_eq!(changed("swap"), "swap /dev/sda3 none discard");
        assert_eq!(with_discard(text, "srv"), Err(FstabError::NotListed));
        assert_eq!(with_discard("a b\na c\n", "a"), Err(FstabError::Twice));
    }

    proptest! {
        #[test]
        fn with_discard_of_any_text_changes_one_line(text in "[ \\t\\n#a,discardé-]{0,120}") {
            if let Ok(after) = with_discard(&text, "a") {
                prop_assert_eq!(text.split('\n').count(), after.split('\n').count());
                prop_assert!(text.split('\n').zip(after.split('\n')).filter(|(a, b)| a != b).count() <= 1);
            }
        }
    }
}
