//! Details of a run beyond the original's report: settings, exact counts and times, in
//! the common form of all workloads.

use trimtab_linux::target::dir::Fsync;
use trimtab_sim::run::{Field, Run, Severity, Warning};
use trimtab_sim::workload::postmark::{PostmarkCounts, PostmarkSettings, metrics};

/// The settings, including those of the target.
pub fn fields(settings: &PostmarkSettings, fsync: Fsync) -> Vec<Field> {
    let mut fields = settings.fields();
    fields.push(Field::new("fsync", if fsync == Fsync::Close { "close" } else { "never" }));
    // In the ids of stored runs.
    fields.push(Field::new("direct", "false"));
    fields
}

/// Adds figures, counts and warnings. `tries` are the counts of each repeat.
pub fn add(run: &mut Run, settings: &PostmarkSettings, tries: &[PostmarkCounts]) {
    let transactions: Vec<u64> = tries.iter().map(|one| u64::from(one.transactions)).collect();
    run.metrics = metrics(&run.phases, &transactions);
    // All repeats do the same.
    let Some(counts) = tries.first() else { return };
    let named = counts.named().into_iter().map(|(name, value)| (name.to_owned(), value));
    run.counters.extend(named.chain([("transactions".to_owned(), transactions[0])]));
    if counts.out_of_files {
        run.warnings.push(out_of_files(settings, counts));
    }
}

fn out_of_files(settings: &PostmarkSettings, counts: &PostmarkCounts) -> Warning {
    let facts = vec![
        Field::new("transactions", counts.transactions.to_string()),
        Field::new("configured", settings.transactions.to_string()),
    ];
    let text = format!(
        "the files ran out after {} of {} transactions: start with more \
            files, ask for fewer transactions, or create more often than delete",
        counts.transactions, settings.transactions
    );
    Warning::new("postmark.out-of-files", Severity::Serious, text).with(facts)
}
