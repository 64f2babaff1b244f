//! Changes one rule in the text of the daemon's configuration; comments and the rest
//! stay.

use crate::daemon::config::{Config, Rule};
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Spanned;
use trimtab_sim::policy::PolicySpec;

/// The fields needed here; [`Config::parse`] validates the whole.
#[derive(Deserialize)]
struct Rules {
    #[serde(default)]
    filesystem: Vec<NamedRule>,
}

#[derive(Deserialize)]
struct NamedRule {
    path: PathBuf,
    policy: Spanned<String>,
}

/// The text with `policy` as the rule for `mount_point`. The result is parsed again to
/// check exactly this rule.
pub fn with_policy(
    file: &Path,
    text: &str,
    mount_point: &Path,
    policy: &str,
) -> anyhow::Result<String> {
    let wanted: PolicySpec = policy.parse()?;
    let before = Config::parse(file, text)?;
    if before.rules.iter().any(|r| r.path.as_deref() == Some(mount_point) && r.policy == wanted) {
        return Ok(text.to_owned());
    }
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let path = mount_point.to_str().with_context(|| {
        format!("'{}' is not UTF-8, which TOML requires", mount_point.display())
    })?;
    let rules: Rules = toml::from_str(text).context("cannot be read")?;
    let named = rules.filesystem.iter().find(|r| r.path.components().eq(mount_point.components()));
    let after = match named {
        Some(rule) => {
            let span = rule.policy.span();
            let (head, tail) = (text.get(..span.start), text.get(span.end..));
            head.zip(tail)
                .map(|(head, tail)| format!("{head}{}{tail}", quoted(policy)))
                .unwrap_or_default()
        }
        None => {
            let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            format!(
                "{text}{gap}\n[[filesystem]]\npath = {}\npolicy = {}\n",
                quoted(path),
                quoted(policy)
            )
        }
    };
    let mut expected = before;
    match expected.rules.iter_mut().find(|r| r.path.as_deref() == Some(mount_point)) {
        Some(rule) => rule.policy = wanted,
        None => {
            let at = expected
                .rules
                .iter()
                .position(|r| r.path.is_none())
                .unwrap_or(expected.rules.len());
            expected.rules.insert(at, Rule { path: Some(mount_point.to_owned()), policy: wanted });
        }
    }
    if Config::parse(file, &after).as_ref() != Ok(&expected) {
        bail!(
            "{}: cannot add a rule to a file in this form; set the policy {policy} \
                for '{path}' by hand",
            file.display()
        );
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, path: &str, policy: &str) -> anyhow::Result<String> {
        with_policy(Path::new("t.toml"), text, Path::new(path), policy)
    }

    #[test]
    fn with_policy_adds_or_changes_only_one_rule() {
        let shipped = include_str!("../../../../packaging/trimtab.toml");
        let added = with(shipped, "/home", "idle:budget=2ms").unwrap();
        assert_eq!(
            added,
            format!("{shipped}\n[[filesystem]]\npath = \"/home\"\npolicy = \"idle:budget=2ms\"\n")
        );
        let changed = with(&added, "/home", "adaptive").unwrap();
        assert_eq!(changed, added.replace("idle:budget=2ms", "adaptive"));
        assert_eq!(
            with(&changed, "/home", "adaptive:share=75%").unwrap(),
            changed,
            "already has this rule"
        );
        let odd = "[default]\npolicy = 'none' # x\n\
            [[filesystem]]\n  policy='batched' # why\n  path='/srv/'";
        assert_eq!(with(odd, "/srv", "idle").unwrap(), odd.replace("'batched'", "\"idle\""));
        assert!(
            with(odd, "/a \"quoted\" \\ path", "none").unwrap().ends_with("policy = \"none\"\n")
        );
    }

    #[test]
    fn with_policy_on_unsupported_text_fails() {
        let inline = "filesystem = [{ path = \"/a\", policy = \"idle\" }]\n";
        assert_eq!(with(inline, "/a", "none").unwrap(), inline.replace("idle", "none"));
        assert!(with(inline, "/b", "none").unwrap_err().to_string().contains("by hand"));
        assert!(with("x = 1\n", "/b", "none").unwrap_err().to_string().contains("t.toml:1:"));
        assert!(with("", "/b", "often").is_err());
    }
}
