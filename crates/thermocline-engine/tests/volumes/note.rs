//! The note of a volume's backing store, and the writes that wait for it, as the server keeps both.

use std::sync::{Arc, Mutex, MutexGuard};

use thermocline_engine::{Event, Shard, SideFile, Uuid, WriteHold};

/// A note, for the shards of its volume.
#[derive(Clone, Default)]
pub(crate) struct Note(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// It is durable as soon as it is written.
    said: Option<SideFile>,
    holds: Vec<WriteHold>,
    has_failed: bool,
}

impl Note {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn said(&self) -> Option<SideFile> {
        self.lock().said
    }

    pub(crate) fn write(&self, said: SideFile) {
        self.lock().said = Some(said);
    }

    /// Return `true` if only a start with the flash has everything.
    pub(crate) fn needs_flash(&self) -> bool {
        self.said().is_some_and(|said| !said.has_left_flash())
    }

    /// Return the cache that the note names, and its epoch.
    pub(crate) fn owner(&self) -> (Uuid, u64) {
        let said = self.said().expect("a volume that is served has a note");
        (said.cache, said.epoch)
    }

    /// Watch the shards of a volume that begins to be served.
    pub(crate) fn watch<'a>(&self, shards: impl Iterator<Item = &'a mut Shard>) {
        let mut holds = vec![];
        for (number, shard) in shards.enumerate() {
            holds.push(shard.write_hold());
            let note = self.clone();
            shard.observe(Box::new(move |event| {
                if matches!(event, Event::FlashFailed { .. }) {
                    note.disown_flash(number);
                }
            }));
        }
        let mut state = self.lock();
        (state.holds, state.has_failed) = (holds, false);
    }

    /// Says that the flash, which failed that shard, must not be used again. Others acknowledge nothing before they
    /// have given it up, too.
    fn disown_flash(&self, shard: usize) {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.has_failed, true) {
            state.holds.iter().for_each(WriteHold::wait);
            let failed = |said: SideFile| SideFile { has_dirty: true, ..said.without_flash() };
            state.said = state.said.map(failed);
        }
        state.holds[shard].release();
    }

    /// Return `true` if the flash failed a shard of the volume.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().has_failed
    }
}
