//! Virtual time: selects and runs the next background event.

use super::Volume;
use trimtab_drive::Device;
use trimtab_drive::units::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VolumeEvent {
    /// The block layer sends a request.
    Dispatch,
    /// Contents of some files have been written.
    BatchDone,
    /// The next stage of a commit.
    Commit,
    /// A transaction has reached its maximum age.
    CommitDue,
    /// Blocks of a checkpoint have been written.
    CheckpointDone,
    /// The flusher checks for expired data.
    FlusherWakes,
    /// Step of the flusher.
    Flush,
    /// Step of the online discard worker.
    Discard,
    /// Step of a running FITRIM.
    Trim,
}

impl<D: Device + ?Sized> Volume<D> {
    /// Runs all events due until `until`, then sets the clock to it.
    pub(super) fn run_until(&mut self, until: Nanos) {
        while let Some((at, event)) = self.next_event()
            && at <= until
        {
            self.happen(at, event);
        }
        self.now = self.now.max(until);
        self.queue.idle(self.now);
    }

    /// Runs events until `until`, or until the running FITRIM has ended.
    pub(super) fn run_until_trimmed(&mut self, until: Nanos) {
        while self.trimming() {
            match self.next_event() {
                Some((at, event)) if at <= until => self.happen(at, event),
                _ => return self.run_until(until),
            }
        }
    }

    pub(super) fn work(&mut self, time: Nanos) {
        self.run_until(self.now.saturating_add(time));
    }

    /// Runs the next event that the foreground may be waiting for.
    pub(super) fn step(&mut self) {
        let (at, event) = self.next_event().expect("a wait needs a pending event");
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

    fn happen(&mut self, at: Nanos, event: VolumeEvent) {
        self.now = self.now.max(at);
        match event {
            VolumeEvent::Dispatch => self.queue.dispatch(at),
            VolumeEvent::BatchDone => self.batch_done(),
            VolumeEvent::Commit => {
                self.flusher_held = false;
                self.commit_step();
                self.convert();
            }
            VolumeEvent::CommitDue => self.start_commit(),
            VolumeEvent::CheckpointDone => {
                self.flusher_held = false;
                self.checkpoint_done();
                self.convert();
            }
            VolumeEvent::FlusherWakes => self.wake_flusher(),
            VolumeEvent::Flush => self.flusher_step(),
            VolumeEvent::Discard => {
                self.flusher_held = false;
                self.online_discard_step();
            }
            VolumeEvent::Trim => {
                self.flusher_held = false;
                self.trim_step();
            }
        }
    }

    /// The earliest event; ties go to the earlier variant.
    fn next_event(&self) -> Option<(Nanos, VolumeEvent)> {
        let now = self.now;
        let mut next: Option<(Nanos, VolumeEvent)> = None;
        let mut consider = |at: Option<Nanos>, event: VolumeEvent| {
            if let Some(at) = at {
                let at = at.max(now);
                if next.is_none_or(|(earliest, _)| at < earliest) {
                    next = Some((at, event));
                }
            }
        };
        match self.queue.next_dispatch() {
            // No other event is earlier.
            Some(at) if at <= now => return Some((now, VolumeEvent::Dispatch)),
            at => consider(at, VolumeEvent::Dispatch),
        }
        consider(self.next_batch_done().map(|(done, _)| done), VolumeEvent::BatchDone);
        if let Some(commit) = &self.commit {
            consider(self.commit_ready(commit), VolumeEvent::Commit);
        } else if let Some(since) = self.journal.since {
            consider(
                Some(since.saturating_add(self.spec.journal.commit_interval)),
                VolumeEvent::CommitDue,
            );
        }
        consider(
            self.checkpoint.and_then(|ticket| self.queue.done(ticket)),
            VolumeEvent::CheckpointDone,
        );
        match self.flushing {
            None => consider(self.flusher_due(), VolumeEvent::FlusherWakes),
            Some(_) if self.flusher_held || self.queue.congested() => {}
            Some(_) => consider(Some(now), VolumeEvent::Flush),
        }
        consider(self.discards.next(), VolumeEvent::Discard);
        consider(self.trimming.as_ref().map(super::trim::ActiveTrim::next), VolumeEvent::Trim);
        next
    }
}
