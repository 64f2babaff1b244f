//! Time: which of the things that run beside the foreground is next, and letting them happen.

use super::Volume;
use trimtab_drive::Device;
use trimtab_drive::units::Nanos;

/// Something that happens beside the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The block layer sends a request.
    Dispatch,
    /// The contents of some files are on the drive.
    BatchDone,
    /// The next stage of a commit.
    Commit,
    /// A transaction has become old enough.
    CommitDue,
    /// A checkpoint's blocks are in place.
    CheckpointDone,
    /// The flusher looks whether there is anything to do.
    FlusherWakes,
    /// The flusher goes on.
    Flush,
    /// The worker for online discards goes on.
    Discard,
    /// A running FITRIM goes on.
    Trim,
}

impl<D: Device> Volume<D> {
    /// Lets everything happen that is due until `until`; then it is `until`.
    pub(super) fn run_until(&mut self, until: Nanos) {
        while let Some((at, event)) = self.next_event()
            && at <= until
        {
            self.happen(at, event);
        }
        self.now = self.now.max(until);
        self.queue.idle(self.now);
    }

    /// Lets everything happen that is due until `until`, or until the FITRIM under way has ended, if that is sooner.
    pub(super) fn run_until_trimmed(&mut self, until: Nanos) {
        while self.trimming() {
            match self.next_event() {
                Some((at, event)) if at <= until => self.happen(at, event),
                _ => return self.run_until(until),
            }
        }
    }

    /// The foreground works for `time`.
    pub(super) fn work(&mut self, time: Nanos) {
        self.run_until(self.now.saturating_add(time));
    }

    /// Lets the next thing happen that the foreground may be waiting for.
    pub(super) fn step(&mut self) {
        let (at, event) = self.next_event().expect("whoever waits, waits for an event that is under way");
        self.happen(at, event);
    }

    /// Waits until all requests of the ticket are complete.
    pub(super) fn wait_for(&mut self, ticket: super::queue::Ticket) {
        self.queue.unplug();
        let done = loop {
            if let Some(done) = self.queue.done(ticket) {
                break done;
            }
            self.step();
        };
        self.queue.finish(ticket);
        self.run_until(done);
    }

    fn happen(&mut self, at: Nanos, event: Event) {
        self.now = self.now.max(at);
        match event {
            Event::Dispatch => self.queue.dispatch(at),
            Event::BatchDone => self.batch_done(),
            Event::Commit => {
                self.flusher_held = false;
                self.commit_step();
                self.convert();
            }
            Event::CommitDue => self.start_commit(),
            Event::CheckpointDone => {
                self.flusher_held = false;
                self.checkpoint_done();
                self.convert();
            }
            Event::FlusherWakes => self.wake_flusher(),
            Event::Flush => self.flusher_step(),
            Event::Discard => {
                self.flusher_held = false;
                self.online_discard_step();
            }
            Event::Trim => {
                self.flusher_held = false;
                self.trim_step();
            }
        }
    }

    /// The earliest event. At the same instant, the earlier in the list.
    fn next_event(&self) -> Option<(Nanos, Event)> {
        let now = self.now;
        let mut next: Option<(Nanos, Event)> = None;
        let mut consider = |at: Option<Nanos>, event: Event| {
            if let Some(at) = at {
                let at = at.max(now);
                if next.is_none_or(|(earliest, _)| at < earliest) {
                    next = Some((at, event));
                }
            }
        };
        consider(self.queue.next_dispatch(), Event::Dispatch);
        consider(self.next_batch_done().map(|(done, _)| done), Event::BatchDone);
        if let Some(commit) = &self.commit {
            consider(self.commit_ready(commit), Event::Commit);
        } else if let Some(since) = self.journal.since {
            consider(Some(since.saturating_add(self.spec.journal.commit_interval)), Event::CommitDue);
        }
        consider(self.checkpoint.and_then(|ticket| self.queue.done(ticket)), Event::CheckpointDone);
        match self.flushing {
            None => consider(self.flusher_due(), Event::FlusherWakes),
            Some(_) if self.flusher_held || self.queue.congested() => {}
            Some(_) => consider(Some(now), Event::Flush),
        }
        consider(self.discards.next(), Event::Discard);
        consider(self.trimming.as_ref().map(super::trim::Trimming::next), Event::Trim);
        next
    }
}
