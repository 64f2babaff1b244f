//! Details of a run beyond the original's report: settings, exact counts and times, in
//! the common form of all workloads.

use trimtab_linux::target::dir::Fsync;
use trimtab_sim::run::{Field, Run, Severity, Warning};
use trimtab_sim::workload::postmark::{PostmarkCounts, PostmarkSettings, metrics};

/// The settings, including those of the target.
pub fn fields(settings: &PostmarkSettings, fsync: Fsync, direct: bool, threads: u32) -> Vec<Field> {
    let mut fields = settings.fields();
    fields.push(Field::new("fsync", if fsync == Fsync::Close { "close" } else { "never" }));
    fields.push(Field::new("direct", direct.to_string()));
    fields.push(Field::new("threads", threads.to_string()));
    fields
}

/// Adds figures, counts and warnings. `streams` are the counts of each stream's repeats.
pub fn add(run: &mut Run, settings: &PostmarkSettings, streams: &[&[PostmarkCounts]]) {
    let tries = streams.iter().map(|tries| tries.len()).min().unwrap_or(0);
    let of_try = |at: usize| streams.iter().map(move |tries| &tries[at]);
    let transactions: Vec<u64> = (0..tries)
        .map(|at| of_try(at).map(|counts| u64::from(counts.transactions)).sum())
        .collect();
    run.metrics = metrics(&run.phases, &transactions);
    // All repeats do the same.
    let Some(first) = (tries > 0).then_some(0) else { return };
    let mut sums: Vec<(String, u64)> = Vec::new();
    for counts in of_try(first) {
        for (at, (name, value)) in counts.named().into_iter().enumerate() {
            match sums.get_mut(at) {
                Some((_, sum)) => *sum += value,
                None => sums.push((name.to_owned(), value)),
            }
        }
    }
    sums.push(("transactions".to_owned(), transactions[first]));
    run.counters.extend(sums);
    for (stream, counts) in of_try(first).enumerate().filter(|(_, counts)| counts.out_of_files) {
        run.warnings.push(out_of_files(stream, streams.len(), settings, counts));
    }
}

fn out_of_files(
    stream: usize,
    streams: usize,
    settings: &PostmarkSettings,
    counts: &PostmarkCounts,
) -> Warning {
    let which = if streams > 1 { format!(" in stream {stream}") } else { String::new() };
    Warning {
        code: "postmark.out-of-files".to_owned(),
        severity: Severity::Serious,
        facts: vec![
            Field::new("stream", stream.to_string()),
            Field::new("transactions", counts.transactions.to_string()),
            Field::new("configured", settings.transactions.to_string()),
        ],
        text: format!(
            "the files ran out{which} after {} of {} transactions: start with more \
                files, ask for fewer transactions, or create more often than delete",
            counts.transactions, settings.transactions
        ),
    }
}
