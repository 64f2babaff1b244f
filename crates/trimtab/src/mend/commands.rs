//! Command lines for each action, word by word; no shell interprets them. Names come
//! last, after `--`.

use trimtab_linux::doctor::{RemedyAction, Tables, kept_options};

/// A program and its arguments.
pub type CommandLine = Vec<String>;

/// A program, its options, and its other arguments.
pub fn line(
    program: &str,
    options: impl IntoIterator<Item: Into<String>>,
    words: &[&str],
) -> CommandLine {
    let words = words.iter().map(|word| (*word).to_owned());
    [program.to_owned()]
        .into_iter()
        .chain(options.into_iter().map(Into::into))
        .chain(words)
        .collect()
}

/// The programs that perform the action, if it is no more than to run them.
pub fn command_lines(action: &RemedyAction) -> Vec<CommandLine> {
    match action {
        RemedyAction::AllowDiscards { name, persistent, keep } => {
            let options = ["--allow-discards"]
                .into_iter()
                .chain(persistent.then_some("--persistent"))
                .map(str::to_owned);
            vec![line("cryptsetup", options.chain(keep.iter().cloned()), &["refresh", "--", name])]
        }
        RemedyAction::RefreshCrypt { name, keep } => {
            let options = ["--allow-discards".to_owned()].into_iter().chain(keep.iter().cloned());
            vec![line("cryptsetup", options, &["refresh", "--", name])]
        }
        RemedyAction::Passdown { pool, .. } => {
            vec![line("lvchange", ["--discards", "passdown"], &["--", pool])]
        }
        RemedyAction::Timer => vec![line("systemctl", ["enable", "--now"], &["fstrim.timer"])],
        RemedyAction::Attribute { .. }
        | RemedyAction::Provisioning { .. }
        | RemedyAction::ReloadTable { .. }
        | RemedyAction::Crypttab { .. } => Vec::new(),
    }
}

/// The programs that undo the action, if any. Repeats the options now in force that a
/// refresh would drop.
pub fn back(action: &RemedyAction, tables: &Tables) -> Vec<CommandLine> {
    match action {
        RemedyAction::AllowDiscards { name, persistent, .. } => {
            let options = persistent
                .then(|| "--persistent".to_owned())
                .into_iter()
                .chain(kept_options(tables, name));
            vec![line("cryptsetup", options, &["refresh", "--", name])]
        }
        RemedyAction::Passdown { pool, .. } => {
            vec![line("lvchange", ["--discards", "nopassdown"], &["--", pool])]
        }
        RemedyAction::Timer => vec![line("systemctl", ["disable", "--now"], &["fstrim.timer"])],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[CommandLine]) -> Vec<String> {
        lines.iter().map(|line| line.join(" ")).collect()
    }

    #[test]
    fn action_runs_verbatim_and_opposite_undoes_it() {
        let keep = vec!["--perf-no_read_workqueue".to_owned()];
        let home = RemedyAction::AllowDiscards {
            name: "home".into(),
            persistent: true,
            keep: keep.clone(),
        };
        assert_eq!(
            shown(&command_lines(&home)),
            ["cryptsetup --allow-discards --persistent --perf-no_read_workqueue refresh -- home"]
        );
        let now = Tables::of_text(
            "home: 0 8 crypt aes :64:logon:x 0 8:2 32768 2 allow_discards no_write_workqueue\n",
        );
        assert_eq!(
            shown(&back(&home, &now)),
            ["cryptsetup --persistent --perf-no_write_workqueue refresh -- home"]
        );
        let luks1 = RemedyAction::AllowDiscards {
            name: "home".into(),
            persistent: false,
            keep: Vec::new(),
        };
        assert_eq!(shown(&back(&luks1, &Tables::default())), ["cryptsetup refresh -- home"]);
        let stale = RemedyAction::RefreshCrypt { name: "home".into(), keep };
        assert_eq!(
            shown(&command_lines(&stale)),
            ["cryptsetup --allow-discards --perf-no_read_workqueue refresh -- home"]
        );
        assert!(back(&stale, &now).is_empty());
        let pool = RemedyAction::Passdown { name: "vg-p-tpool".into(), pool: "vg/p".into() };
        assert_eq!(shown(&command_lines(&pool)), ["lvchange --discards passdown -- vg/p"]);
        assert_eq!(shown(&back(&pool, &now)), ["lvchange --discards nopassdown -- vg/p"]);
        assert_eq!(
            shown(&command_lines(&RemedyAction::Timer)),
            ["systemctl enable --now fstrim.timer"]
        );
    }
}
