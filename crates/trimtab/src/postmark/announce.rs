//! Progress messages of a run, identical to the original's, and the times for its report.

use super::classic::Stamps;
use std::cell::RefCell;
use std::io::{self, Write};
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::runner::{Events, Observer};
use trimtab_sim::target::TargetResult;
use trimtab_sim::workload::postmark::{Postmark, phase};
use trimtab_sim::workload::{FileStep, FileWorkload, WorkloadPlan};

/// The wall clock in whole seconds.
pub type Seconds<'a> = &'a mut dyn FnMut() -> i64;

/// Announces the phases of a run, and its transactions as dots.
///
/// Errors of the output are ignored, as in the original.
pub struct Announcer<'a>(RefCell<AnnouncerState<'a>>);

struct AnnouncerState<'a> {
    out: &'a mut dyn Write,
    seconds: Seconds<'a>,
    stamps: Stamps,
    phase: Option<&'static str>,
    dots: u32,
    /// Transactions from one dot to the next.
    dot_every: u32,
    out_of_files: bool,
}

impl<'a> Announcer<'a> {
    /// An announcer for a run of `transactions` transactions.
    pub fn new(out: &'a mut dyn Write, seconds: Seconds<'a>, transactions: u32) -> Self {
        // The original divides by zero for fewer than 10 transactions.
        let dot_every = (transactions / 10).max(1);
        Self(RefCell::new(AnnouncerState {
            out,
            seconds,
            stamps: Stamps::default(),
            phase: None,
            dots: 0,
            dot_every,
            out_of_files: false,
        }))
    }

    /// The four times of the report.
    pub fn stamps(&self) -> Stamps {
        self.0.borrow().stamps
    }
}

impl AnnouncerState<'_> {
    /// Prints a dot after the first transaction and after every further tenth.
    fn transactions_finished(&mut self, finished: u32) {
        while self.dots < finished.div_ceil(self.dot_every) {
            self.dots += 1;
            let _ = self.say(".");
        }
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Ends the previous phase and begins `next`.
    fn begin(&mut self, next: Option<&str>) -> io::Result<()> {
        match self.phase {
            Some(phase::TRANSACTIONS) => {
                let words = if self.out_of_files { OUT_OF_FILES } else { DONE };
                self.out.write_all(words.as_bytes())?;
                self.stamps.sweep = (self.seconds)();
            }
            Some(phase::DELETE) => {
                self.out.write_all(DONE.as_bytes())?;
                self.stamps.end = (self.seconds)();
            }
            Some(_) => self.out.write_all(DONE.as_bytes())?,
            None => {}
        }
        let label = LABELS.iter().find(|(name, _)| Some(*name) == next);
        self.phase = label.map(|(name, _)| *name);
        if next == Some(phase::CREATE) {
            self.stamps.start = (self.seconds)();
        }
        if let Some((_, label)) = label {
            self.say(label)?;
        }
        if next == Some(phase::TRANSACTIONS) {
            self.stamps.transactions = (self.seconds)();
        }
        Ok(())
    }
}

const DONE: &str = "Done\n";
const OUT_OF_FILES: &str = "out of files!\nFor this workload, either increase the number of files or\n\
    decrease the number of transactions.\n";
const LABELS: [(&str, &str); 5] = [
    (phase::MAKE_DIRS, "Creating subdirectories..."),
    (phase::CREATE, "Creating files..."),
    (phase::TRANSACTIONS, "Performing transactions"),
    (phase::DELETE, "Deleting files..."),
    (phase::REMOVE_DIRS, "Deleting subdirectories..."),
];

impl Observer for &Announcer<'_> {
    fn stopped(&self) -> bool {
        trimtab_linux::sys::interrupt::requested()
    }
}

impl<T: ?Sized> Events<T> for &Announcer<'_> {
    fn between(
        &mut self,
        _target: &mut T,
        _recorder: &mut Recorder,
        next: Option<&str>,
    ) -> TargetResult {
        let _ = self.0.borrow_mut().begin(next);
        Ok(())
    }
}

/// A PostMark run with announced progress.
pub struct AnnouncedRun<'a, 'b> {
    /// The run.
    pub run: Postmark,
    announcer: &'b Announcer<'a>,
    transactions: u32,
}

impl<'a, 'b> AnnouncedRun<'a, 'b> {
    /// Announces `run` to `announcer`.
    pub fn new(run: Postmark, announcer: &'b Announcer<'a>) -> Self {
        Self { run, announcer, transactions: 0 }
    }

    #[cold]
    fn announce(&mut self) {
        let mut state = self.announcer.0.borrow_mut();
        state.transactions_finished(self.transactions);
        state.out_of_files = self.run.counts().out_of_files;
    }
}

impl FileWorkload for AnnouncedRun<'_, '_> {
    fn plan(&self) -> WorkloadPlan {
        self.run.plan()
    }

    #[inline]
    fn next_step(&mut self) -> Option<FileStep<'_>> {
        self.run.advance();
        let finished = self.run.transactions_finished();
        if finished != self.transactions || self.run.at_phase() {
            self.transactions = finished;
            self.announce();
        }
        self.run.current()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_linux::target::null::NullFiles;
    use trimtab_sim::runner::files::run;
    use trimtab_sim::workload::postmark::PostmarkSettings;

    fn output(settings: &PostmarkSettings) -> (String, Stamps) {
        let mut out = Vec::new();
        let mut now = 0;
        let mut seconds = || {
            now += 1;
            now
        };
        let announcer = Announcer::new(&mut out, &mut seconds, settings.transactions);
        let mut workload = AnnouncedRun::new(Postmark::new(settings).unwrap(), &announcer);
        let outcome = run(&mut workload, &mut NullFiles::new(), &mut &announcer);
        assert_eq!(outcome.end, trimtab_sim::runner::RunEnd::Complete);
        let stamps = announcer.stamps();
        (String::from_utf8(out).unwrap(), stamps)
    }

    #[test]
    fn progress_dots_count_tenths_of_transactions() {
        for (transactions, dots) in
            [(1, 1), (9, 9), (10, 10), (19, 19), (20, 10), (105, 11), (20_000, 10)]
        {
            let (text, stamps) =
                output(&PostmarkSettings { transactions, ..PostmarkSettings::default() });
            let want = format!(
                "Creating files...Done\nPerforming transactions{}Done\nDeleting files...Done\n",
                ".".repeat(dots)
            );
            assert_eq!(text, want, "{transactions}");
            assert_eq!(stamps, Stamps { start: 1, transactions: 2, sweep: 3, end: 4 });
        }
    }

    #[test]
    fn transactions_without_operations_are_announced() {
        let settings = PostmarkSettings {
            bias_read: None,
            bias_create: None,
            transactions: 30,
            subdirectories: 3,
            ..PostmarkSettings::default()
        };
        let (text, _) = output(&settings);
        assert_eq!(
            text,
            "Creating subdirectories...Done\nCreating files...Done\n\
                Performing transactions..........Done\nDeleting files...Done\n\
                Deleting subdirectories...Done\n"
        );
    }
}
