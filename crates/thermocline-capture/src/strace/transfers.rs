//! Calls that read and write: where, how much, and what is emitted.

use std::rc::Rc;

use thermocline_core::Op;
use thermocline_trace::Reason;

use super::calls::{Begun, Kind, Position, too_large};
use super::descriptors::Description;
use super::line::{Call, has_flag};
use super::{Fault, Moment, Tracer};
use crate::collector::IMPOSSIBLE_REQUEST;
use crate::options::Mmap;
use crate::spool::Spooled;

impl Tracer<'_> {
    /// Process a call that has read or written `count` bytes.
    #[expect(clippy::too_many_arguments, reason = "they are what a call says, each once")]
    pub(super) fn transfer(
        &mut self,
        moment: Moment,
        call: &Call<'_>,
        begun: &Begun,
        op: Op,
        position: Position,
        asked: Option<usize>,
        count: u64,
    ) -> Result<(), Fault> {
        let Some((description, file)) = self.moved(begun.first.as_ref(), op, count) else {
            return Ok(());
        };
        let appends = op == Op::Write
            && (description.appends.get() || has_flag(call.argument(4), b"RWF_APPEND"));
        let explicit = match position {
            Position::Argument(index) if call.argument(index) != b"-1" => Some(call.number(index)?),
            Position::Argument(_) | Position::Current => None,
        };
        let offset = match explicit {
            _ if appends => self.append_at(file),
            Some(offset) => offset,
            None => self.position(&description),
        };
        let end = offset.checked_add(count).ok_or_else(too_large)?;
        if explicit.is_none() {
            description.position.set(Some(end));
        }
        if op == Op::Read
            && let Some(asked) = asked
            && count < call.number(asked)?
        {
            // Only its end makes a regular file give less than was asked for.
            self.collector.counts.short_reads += 1;
            self.names.set_size(file, end);
        }
        self.emit(moment, file, op, offset, count)
    }

    /// Process a call that has moved `count` bytes from one file to another.
    pub(super) fn transfer_between(
        &mut self,
        moment: Moment,
        kind: Kind,
        call: &Call<'_>,
        begun: &Begun,
        count: u64,
    ) -> Result<(), Fault> {
        let Kind::Transfer { source_offset, target_offset, .. } = kind else { return Ok(()) };
        let sides = [
            (&begun.first, Op::Read, Some(source_offset)),
            (&begun.second, Op::Write, target_offset),
        ];
        for (description, op, argument) in sides {
            let Some((description, file)) = self.moved(description.as_ref(), op, count) else {
                continue;
            };
            let explicit = match argument.map(|index| call.argument(index)) {
                None | Some(b"NULL") => None,
                Some(text) => Some(super::line::number(text)?),
            };
            let offset = match explicit {
                _ if op == Op::Write && description.appends.get() => self.append_at(file),
                Some(offset) => offset,
                None => self.position(&description),
            };
            let end = offset.checked_add(count).ok_or_else(too_large)?;
            if explicit.is_none() {
                description.position.set(Some(end));
            }
            self.emit(moment, file, op, offset, count)?;
        }
        Ok(())
    }

    /// Counts a call that has moved something; its file, if it was one and anything moved.
    fn moved(
        &mut self,
        description: Option<&Rc<Description>>,
        op: Op,
        count: u64,
    ) -> Option<(Rc<Description>, u32)> {
        let counts = &mut self.collector.counts;
        counts.io_calls += 1;
        let Some(description) = description else {
            counts.unknown_descriptor += 1;
            return None;
        };
        let Some(file) = description.file() else {
            counts.not_a_file += 1;
            return None;
        };
        if count == 0 {
            counts.end_of_file += u64::from(op == Op::Read);
            return None;
        }
        Some((Rc::clone(description), file))
    }

    /// Return the position of the next append to a file.
    fn append_at(&mut self, file: u32) -> u64 {
        let (bytes, is_known) = self.names.size(file);
        self.collector.counts.append_assumed += u64::from(!is_known);
        bytes
    }

    /// Return the position of a description; 0 is assumed if it was open before.
    fn position(&mut self, description: &Description) -> u64 {
        description.position.get().unwrap_or_else(|| {
            self.collector.counts.position_assumed += 1;
            0
        })
    }

    fn emit(
        &mut self,
        moment: Moment,
        file: u32,
        op: Op,
        offset: u64,
        length: u64,
    ) -> Result<(), Fault> {
        if op == Op::Write {
            self.names.grow(file, offset.saturating_add(length));
        }
        let command = self.task(moment.pid).command;
        let at_ns = moment.at_ns;
        let request = Spooled { at_ns, file, command, op, offset, length };
        let horizon_ns = self.horizon_ns(moment);
        if self.collector.request(request, horizon_ns)? {
            Ok(())
        } else {
            Err(Reason::from(IMPOSSIBLE_REQUEST).into())
        }
    }

    /// Map a file: later accesses to it leave no line.
    pub(super) fn map(
        &mut self,
        moment: Moment,
        call: &Call<'_>,
        begun: &Begun,
    ) -> Result<(), Fault> {
        let file = begun.first.as_ref().and_then(|description| description.file());
        let Some(file) = file else { return Ok(()) };
        let length = call.number(1)?;
        let counts = &mut self.collector.counts;
        counts.mmaps += 1;
        counts.mmap_bytes = counts.mmap_bytes.saturating_add(length);
        if self.options.mmap == Mmap::Ignore {
            return Ok(());
        }
        let offset = call.number(5)?;
        let length = match self.names.size(file) {
            (bytes, true) => length.min(bytes.saturating_sub(offset)),
            (_, false) => length,
        };
        if length == 0 {
            return Ok(());
        }
        self.emit(moment, file, Op::Read, offset, length)?;
        if call.has_flag(2, b"PROT_WRITE") && call.has_flag(3, b"MAP_SHARED") {
            // It is not known to be longer by that.
            let size = self.names.size(file);
            self.emit(moment, file, Op::Write, offset, length)?;
            if size.1 {
                self.names.set_size(file, size.0);
            }
        }
        Ok(())
    }
}
