//! One run: volumes on devices that fail, and their clients.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use thermocline_engine::{DeviceError, Directory, RequestKind};

use crate::changes::Job;
use crate::devices::{Devices, Flash};
use crate::exchange::Exchange;
use crate::note::Note;
use crate::volume::{Member, Page, Volume, blank_pages};
use crate::{GUEST, PAGE, PAGES};

/// The volumes of a run.
pub(crate) struct World {
    pub(crate) devices: Rc<RefCell<Devices>>,
    /// Those that are served: the guest is the last one.
    pub(crate) volumes: Vec<Volume>,
    /// Pages of each volume as its clients know them.
    pub(crate) pages: [Vec<Page>; 3],
    pub(crate) notes: [Note; 3],
    pub(crate) guest_leaves: bool,
    pub(crate) exchange: Exchange,
    pub(crate) job: Option<Job>,
    /// `true` if all shards hear soon that the flash failed one of them.
    pub(crate) tells_failures: bool,
    /// Times that a volume gave room back.
    pub(crate) shrunk: u64,
    /// `true` if the flash is replaced now and then.
    pub(crate) replaces: bool,
    /// Replacements that came to their end.
    pub(crate) replaced: u64,
    next_tag: u64,
    /// Caches that were set up.
    pub(crate) caches: u128,
    pub(crate) seed: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let devices = Rc::new(RefCell::new(Devices::new(seed)));
        Directory::set_up(&mut Flash(Rc::clone(&devices)), &[]).unwrap();
        let mut world = Self {
            devices,
            volumes: vec![],
            pages: [(); 3].map(|()| blank_pages()),
            notes: Default::default(),
            guest_leaves: false,
            exchange: Exchange::Idle,
            job: None,
            tells_failures: true,
            shrunk: 0,
            replaces: false,
            replaced: 0,
            next_tag: 1,
            caches: 0,
            seed,
        };
        world.start().expect("the power is on");
        world.read_all();
        world
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.devices.borrow_mut().below(bound)
    }

    /// Submits a request to a volume; `false` if there is no room for it.
    pub(crate) fn submit(&mut self, number: usize, kind: RequestKind, pages: Range<u64>) -> bool {
        let known = &mut self.pages[number];
        let is_taken = self.volumes[number].submit(known, (self.next_tag, kind), pages);
        self.next_tag += u64::from(is_taken);
        self.volumes[number].take_replies(known, &self.devices.borrow());
        is_taken
    }

    /// Submits a request as soon as there is room for it. The power stays on.
    pub(crate) fn submit_soon(&mut self, number: usize, kind: RequestKind, pages: Range<u64>) {
        while !self.submit(number, kind, pages.clone()) {
            assert!(self.turn(false));
        }
    }

    /// Submits a request about drawn pages.
    pub(crate) fn submit_any(&mut self, number: usize, kind: RequestKind) {
        let first = self.below(PAGES);
        let end = PAGES.min(first + 1 + self.below(3) * self.below(2));
        self.submit(number, kind, first..end);
    }

    /// Wait until all requests of a volume are answered; `None` if the power is cut.
    pub(crate) fn wait(&mut self, number: usize) -> Option<()> {
        while !self.volumes[number].has_answered_all() {
            self.turn(false).then_some(())?;
        }
        Some(())
    }

    /// Has the devices work for some shards, and performs a sync of the flash if one is wanted; `false` if
    /// the power is cut.
    pub(crate) fn turn(&mut self, sync_fails: bool) -> bool {
        let has_failed = self.notes.iter().any(Note::has_failed);
        let mut devices = self.devices.borrow_mut();
        for volume in &mut self.volumes {
            for index in 0..volume.members.len() {
                // Each shard has a thread of its own, which comes to it when it can.
                if devices.below(4) == 0 {
                    continue;
                }
                let member = &mut volume.members[index];
                if let Some(begun) = member.begun.take() {
                    member.shard.epoch_has_begun(&begun);
                }
                // It may look just before the flash fails another one, and work just after that.
                if has_failed && self.tells_failures && devices.below(2) == 0 {
                    member.shard.give_up_flash();
                }
                if !volume.work(index, &mut devices) {
                    return false;
                }
                volume.take_replies(&mut self.pages[volume.number], &devices);
            }
        }
        if devices.syncs.begin() {
            let Self { volumes, pages, .. } = self;
            sync_flash(&mut devices, (volumes, pages), sync_fails);
        }
        true
    }

    /// Clients of all volumes work until the power is cut.
    pub(crate) fn live(&mut self, steps: u64) {
        self.devices.borrow_mut().steps_left = steps;
        while self.live_on().is_some() {}
    }

    /// Take a step of each kind by a draw; `None` if the power is cut.
    fn live_on(&mut self) -> Option<()> {
        let volumes = self.volumes.len() - usize::from(self.guest_leaves);
        let number = self.below(volumes as u64) as usize;
        let kind = [RequestKind::Write, RequestKind::Write, RequestKind::Read, RequestKind::Flush]
            [self.below(4) as usize];
        self.submit_any(number, kind);
        if self.below(3) == 0 && !self.turn(false) {
            return None;
        }
        if self.replaces && self.below(2) == 0 {
            self.replace_flash()?;
        }
        // The server refuses changes while it replaces the flash.
        if !matches!(self.exchange, Exchange::Idle) {
            return Some(());
        }
        if self.below(30) == 0 {
            self.grow()?;
        }
        if self.below(30) == 0 {
            self.shrink();
        }
        self.advance_changes()?;
        if self.below(if self.guest_leaves { 2 } else { 30 }) == 0 && self.job.is_none() {
            self.change_guest()?;
        }
        Some(())
    }

    /// Power is cut and returns, perhaps several times before all volumes are there.
    pub(crate) fn crash(&mut self) {
        let shards: usize = self.volumes.iter().map(|volume| volume.members.len()).sum();
        let most = 15 * shards as u64;
        loop {
            self.devices.borrow_mut().restart();
            let steps = self.below(2 * most);
            self.devices.borrow_mut().steps_left = if steps < most { steps } else { u64::MAX };
            if self.start().is_some() {
                break;
            }
        }
        self.devices.borrow_mut().steps_left = u64::MAX;
        self.read_all();
    }

    /// Reads every page, which stays from then on as it was found.
    fn read_all(&mut self) {
        if self.volumes.len() == GUEST {
            self.check_guest();
        }
        for number in 0..self.volumes.len() {
            self.volumes[number].is_recovering = true;
            for page in 0..PAGES {
                self.submit_soon(number, RequestKind::Read, page..page + 1);
                self.wait(number).expect("the power is on");
            }
            self.volumes[number].is_recovering = false;
        }
    }
}

impl World {
    /// Check that the backing store of a volume whose flash failed durably has what was flushed.
    pub(crate) fn check_backing(&self, number: usize) {
        let devices = self.devices.borrow();
        let pages = self.pages[number].iter().zip(devices.backing[number].durable.chunks(PAGE));
        for (page, (known, bytes)) in pages.enumerate() {
            known.check((page as u64, number), known.flushed, bytes);
        }
    }
}

impl Drop for World {
    #[expect(clippy::print_stderr, reason = "a test that fails names its seed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.seed);
        }
    }
}

/// Syncs the flash for all who asked, and tells them.
fn sync_flash(
    devices: &mut Devices,
    (volumes, pages): (&mut [Volume], &mut [Vec<Page>; 3]),
    fails: bool,
) {
    let Devices { flash, random, syncs, .. } = devices;
    if fails {
        flash.lose(random);
    } else {
        flash.sync();
    }
    let mut told = vec![];
    syncs.done(!fails, |sync, count, is_good| told.push((sync, count, is_good)));
    for (sync, count, is_good) in told {
        let failed = DeviceError(io::ErrorKind::Other);
        let result = if is_good { Ok(()) } else { Err(failed) };
        let its = |member: &&mut Member| member.sync == Some(sync);
        for volume in &mut *volumes {
            if let Some(member) = volume.members.iter_mut().find(its) {
                member.synced(count, result);
                volume.take_replies(&mut pages[volume.number], devices);
            }
        }
    }
}
