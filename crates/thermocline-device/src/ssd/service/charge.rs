//! The work of one request, or of the drive itself, on its way into the queues.

use super::super::ftl::{Cause, Work};
use super::super::geometry::NONE;
use super::{BUFFERED, Kind, Operation, SLC_LEVEL, Service, level, small};

/// Puts the work of one request into the queues.
#[derive(Debug)]
pub(crate) struct Charge<'a> {
    service: &'a mut Service,
    /// The request.
    owner: u32,
    /// Stream of the host's pages.
    stream: usize,
    /// Operations that the request waits for.
    owed: u32,
    /// Pages that move from one physical page.
    copying: Option<Copying>,
    /// `true` if what is programmed is not the host's, but folded.
    folds: bool,
    /// `true` if the program fills the rest of a physical page, without a page of the buffer.
    pads: bool,
}

/// Pages that garbage collection moves from one physical page, and the physical page that they fill.
#[derive(Clone, Copy, Debug)]
struct Copying {
    plane: u32,
    /// The place of the physical page in its block.
    source: u32,
    pages: u8,
    /// The level of the physical page that became full, if one did.
    program_level: Option<u8>,
}

impl<'a> Charge<'a> {
    pub(super) const fn new(service: &'a mut Service, owner: u32, stream: usize) -> Self {
        Self { service, owner, stream, owed: 0, copying: None, folds: false, pads: false }
    }

    /// Create the account for the rest of physical pages that a stream has begun.
    pub(super) const fn padding(service: &'a mut Service, owner: u32, stream: usize) -> Self {
        Self { service, owner, stream, owed: 0, copying: None, folds: false, pads: true }
    }

    /// Create the account of pages that the drive folds. No request waits for them.
    pub(super) const fn folding(service: &'a mut Service) -> Self {
        Self { service, owner: NONE, stream: 0, owed: 0, copying: None, folds: true, pads: false }
    }

    /// Program a page of the pseudo-SLC cache for the host. `is_full` says that its physical page is full
    /// with it.
    pub(crate) fn program_in_cache(&mut self, plane: u32, page: u32, is_full: bool) {
        self.program_with(plane, page, is_full, SLC_LEVEL);
    }

    fn program_with(&mut self, plane: u32, page: u32, is_full: bool, level: u8) {
        let service = &mut *self.service;
        let pages = 1 << service.program_shift;
        let mut owner = self.owner;
        if !self.folds
            && let Some(buffered) = service.buffered.get_mut(plane as usize)
        {
            buffered.gathered[self.stream] += u8::from(!self.pads);
            if is_full {
                let gathered = std::mem::take(&mut buffered.gathered[self.stream]);
                buffered.programs.push_back((page + 1 - pages, gathered));
            }
            owner = BUFFERED;
        }
        if !is_full {
            return;
        }
        let operation = Operation {
            owner,
            plane: service.plane_in_unit(plane),
            kind: Kind::Program,
            levels: level << 4,
            pages: small(pages),
        };
        self.owed += u32::from(owner < BUFFERED);
        service.push(plane, operation, false);
    }

    /// Queues what is still to be queued; returns how many operations the request waits for.
    pub(crate) fn finish(mut self) -> u32 {
        self.finish_copying();
        self.owed
    }

    /// Queues the read of the physical page that pages are moved from, and the program of the one
    /// that they have filled.
    fn finish_copying(&mut self) {
        let Some(Copying { plane, source, pages, program_level }) = self.copying.take() else {
            return;
        };
        let service = &mut *self.service;
        let read = Operation {
            owner: NONE,
            plane: service.plane_in_unit(plane),
            kind: Kind::Read,
            levels: level(source, &service.times.reads),
            pages,
        };
        service.push(plane, read, false);
        if let Some(level) = program_level {
            let pages = small(1 << service.program_shift);
            let program = Operation { kind: Kind::Program, levels: level << 4, pages, ..read };
            service.push(plane, program, false);
        }
    }
}

impl Work for Charge<'_> {
    fn program(&mut self, plane: u32, page: u32, within: u32) {
        self.finish_copying();
        let shift = self.service.program_shift;
        let is_full = (within + 1) & ((1 << shift) - 1) == 0;
        let level = level(within >> shift, &self.service.times.programs);
        self.program_with(plane, page, is_full, level);
    }

    fn copy(&mut self, plane: u32, source_within: u32, target_within: u32, _: Cause) {
        let service = &*self.service;
        if !service.gc_time {
            return;
        }
        let shift = service.program_shift;
        let (source, target) = (source_within >> shift, target_within >> shift);
        let target_level = level(target, &service.times.programs);
        // A copyback stays inside the plane, so it takes the place of a read, a program and both
        // transfers.
        if service.copyback {
            let copyback = Operation {
                owner: NONE,
                plane: service.plane_in_unit(plane),
                kind: Kind::Copyback,
                levels: level(source, &service.times.reads) | target_level << 4,
                pages: 1,
            };
            self.service.push(plane, copyback, false);
            return;
        }
        // Pages of one physical page are read together: their cells are sensed at once.
        if self.copying.is_none_or(|copying| (copying.plane, copying.source) != (plane, source)) {
            self.finish_copying();
            self.copying = Some(Copying { plane, source, pages: 0, program_level: None });
        }
        if let Some(copying) = &mut self.copying {
            copying.pages += 1;
            if (target_within + 1) & ((1 << shift) - 1) == 0 {
                copying.program_level = Some(target_level);
            }
        }
    }

    fn erase(&mut self, plane: u32, _: Cause) {
        self.finish_copying();
        if self.service.gc_time {
            let plane_in_unit = self.service.plane_in_unit(plane);
            let erase = Operation {
                owner: NONE,
                plane: plane_in_unit,
                kind: Kind::Erase,
                ..Operation::default()
            };
            // A reclaim unit is several blocks, and each takes its own erase.
            for _ in 0..self.service.unit_blocks {
                self.service.push(plane, erase, false);
            }
        }
    }
}
