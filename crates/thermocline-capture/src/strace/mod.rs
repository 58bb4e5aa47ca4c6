//! Recordings of `strace -f -ttt -o FILE`, with or without `-y` or `-yy`.
//!
//! The lines drive a model of the recorded system: processes, their descriptors, what those share,
//! and which file has which name. Two passes: the first finds whose child each process is, and what
//! the processes were that strace was attached to. Held are processes, descriptors and files, never
//! lines.
//!
//! * Time: when a call was entered. Its effects come when its result is known, except `close`, which
//!   acts at once, because its descriptor may be used again before it returns.
//! * Source: strace(1); the calls' manual pages of section 2.

mod attached;
mod births;
mod calls;
mod descriptors;
mod files;
mod line;
mod names;
mod task;
mod transfers;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use thermocline_trace::{Reason, TraceError};

use self::births::Births;
use self::calls::{Begun, Kind};
use self::line::{Call, Event, Line, Outcome};
use self::names::Names;
use self::task::{Half, Task};
use super::collector::{Captured, Collector};
use super::options::CaptureOptions;
use super::progress::Progress;
use super::source::Recorded;
use crate::error::CaptureError;

pub use self::attached::AttachedTask;

/// A recording that is being understood.
struct Tracer<'a> {
    collector: Collector<'a>,
    options: &'a CaptureOptions,
    names: Names,
    births: Births,
    /// Tasks that were there before, and have shown no line yet.
    attached: HashMap<u32, AttachedTask>,
    tasks: HashMap<u32, Task>,
    /// Start times of the requests that are not finished.
    begun: BTreeSet<(u64, u32)>,
    /// Paths under construction.
    path: Vec<u8>,
    other_path: Vec<u8>,
}

/// Time and place of an event.
#[derive(Clone, Copy, Debug)]
struct Moment {
    pid: u32,
    /// The number of the line.
    line: u64,
    /// Time at which the call was entered.
    at_ns: u64,
    /// Time at which its line, or second half, was written.
    now_ns: u64,
}

/// Reason why a line is not taken.
enum Fault {
    /// The line cannot be understood.
    Line(Reason),
    /// The recording cannot go on.
    Fatal(TraceError),
}

impl From<Reason> for Fault {
    fn from(reason: Reason) -> Self {
        Self::Line(reason)
    }
}

impl From<TraceError> for Fault {
    fn from(error: TraceError) -> Self {
        Self::Fatal(error)
    }
}

/// Converts the recording `source` to `output`.
pub(super) fn convert(
    source: &Recorded,
    output: &Path,
    options: &CaptureOptions,
    progress: &mut dyn Progress,
) -> Result<Captured, CaptureError> {
    let mut tracer = Tracer {
        collector: Collector::new(options, output)?,
        options,
        names: Names::new(options.identity),
        births: Births::default(),
        attached: HashMap::new(),
        tasks: HashMap::new(),
        begun: BTreeSet::new(),
        path: vec![],
        other_path: vec![],
    };
    source.each_line(progress, |number, line| {
        match AttachedTask::parse(line) {
            Ok(task) => drop(tracer.attached.insert(task.id, task)),
            Err(_) => tracer.births.look(number, line),
        }
        Ok(())
    })?;
    source.each_line(progress, |number, line| tracer.line(number, line))?;
    let halves = tracer.tasks.values().filter(|task| task.half.is_some()).count();
    tracer.collector.counts.never_resumed += halves as u64;
    tracer.collector.finish(source.path(), "strace")
}

impl Tracer<'_> {
    fn line(&mut self, number: u64, text: &[u8]) -> Result<(), TraceError> {
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        self.collector.counts.lines += 1;
        if AttachedTask::is_line(text) {
            // The first pass has taken it.
            if let Err(reason) = AttachedTask::parse(text) {
                self.collector.not_understood(number, &reason, text);
            }
            return Ok(());
        }
        let done = match Line::parse(text) {
            Ok(line) => self.event(number, &line),
            Err(reason) => Err(Fault::Line(reason)),
        };
        match done {
            Ok(()) => Ok(()),
            Err(Fault::Line(reason)) => {
                self.collector.not_understood(number, &reason, text);
                Ok(())
            }
            Err(Fault::Fatal(error)) => Err(error),
        }
    }

    fn event(&mut self, number: u64, line: &Line<'_>) -> Result<(), Fault> {
        let moment = Moment { pid: line.pid, line: number, at_ns: line.at_ns, now_ns: line.at_ns };
        match line.event {
            Event::Call(body) => {
                self.attend(moment, true);
                let call = Call::parse(body, false)?;
                self.drop_half(line.pid);
                let kind = Kind::of(call.name);
                let begun = self.begin(moment, kind, &call)?;
                self.complete(moment, kind, &call, begun)
            }
            Event::Unfinished(body) => {
                self.attend(moment, true);
                self.unfinished(moment, body)
            }
            Event::Resumed(name, body) => {
                let is_first = self.attend(moment, true);
                self.resumed(moment, name, body, is_first)
            }
            Event::Exited => {
                self.drop_half(line.pid);
                self.tasks.remove(&line.pid);
                self.attached.remove(&line.pid);
                Ok(())
            }
            Event::Superseded(by) => {
                self.supersede(line.pid, by);
                Ok(())
            }
            Event::Signal => {
                self.attend(moment, false);
                Ok(())
            }
        }
    }

    /// Keeps the first half of a call, and does what happens at its entry.
    fn unfinished(&mut self, moment: Moment, body: &[u8]) -> Result<(), Fault> {
        self.collector.counts.unfinished += 1;
        self.drop_half(moment.pid);
        let call = Call::parse(body, true)?;
        let kind = Kind::of(call.name);
        let begun = self.begin(moment, kind, &call)?;
        if begun.is_request() {
            self.begun.insert((moment.at_ns, moment.pid));
        }
        let name_bytes = call.name.len();
        let task = self.task(moment.pid);
        task.text.clear();
        task.text.extend_from_slice(body);
        task.half = Some(Half { at_ns: moment.at_ns, name_bytes, begun });
        Ok(())
    }

    /// Puts the halves of a call together.
    fn resumed(
        &mut self,
        moment: Moment,
        name: &[u8],
        body: &[u8],
        is_first: bool,
    ) -> Result<(), Fault> {
        let task = self.task(moment.pid);
        let half = task.half.take();
        let mut text = std::mem::take(&mut task.text);
        let Some(Half { at_ns, begun, .. }) =
            half.filter(|half| text.get(..half.name_bytes) == Some(name))
        else {
            return self.resumed_without_start(is_first);
        };
        self.begun.remove(&(at_ns, moment.pid));
        text.extend_from_slice(body);
        // A call of a process that was ended has two of these.
        let call = Call::parse(&text, false).and_then(|call| match call.result {
            Outcome::Pending => Err("the second half of a call has no result".into()),
            Outcome::Value(..) | Outcome::Failed | Outcome::Nothing => Ok(call),
        });
        let done = call.map_err(Fault::Line).and_then(|call| {
            self.complete(Moment { at_ns, ..moment }, Kind::of(call.name), &call, begun)
        });
        // The buffer is used again.
        if let Some(task) = self.tasks.get_mut(&moment.pid) {
            task.text = text;
        }
        done
    }

    /// Take a call that began before the recording did, if this is the first that is seen of the
    /// process.
    fn resumed_without_start(&mut self, is_first: bool) -> Result<(), Fault> {
        self.collector.counts.resumed_without_start += 1;
        if is_first { Ok(()) } else { Err(Reason::from("there is no first half to it").into()) }
    }

    /// Gives up a first half whose second never came.
    fn drop_half(&mut self, pid: u32) {
        let Some(half) = self.tasks.get_mut(&pid).and_then(|task| task.half.take()) else { return };
        self.begun.remove(&(half.at_ns, pid));
        self.collector.counts.never_resumed += 1;
    }

    /// Return the time before which no event can come any more.
    fn horizon_ns(&self, moment: Moment) -> u64 {
        self.begun.first().map_or(moment.now_ns, |&(at_ns, _)| at_ns.min(moment.now_ns))
    }

    fn begin(&mut self, moment: Moment, kind: Kind, call: &Call<'_>) -> Result<Begun, Fault> {
        let mut begun = Begun::default();
        for (index, slot) in
            kind.descriptors().into_iter().zip([&mut begun.first, &mut begun.second])
        {
            let Some(index) = index else { continue };
            if !call.argument(index).is_empty() {
                let descriptor = call.descriptor(index)?;
                *slot = self.description(moment.pid, descriptor);
            }
        }
        if kind == Kind::Close {
            let number = call.descriptor(0)?.number;
            if let Some(number) = number {
                self.task(moment.pid).files.borrow_mut().close(number);
            }
        } else if kind == Kind::CloseRange {
            self.close_range(moment.pid, call)?;
        }
        Ok(begun)
    }
}

#[cfg(test)]
mod tests;
