//! Assignment of accesses to clients: one trace dealt to several clients, or one trace per client.
//!
//! Besides the columns of the trace, memory holds a byte per access, and while traces are merged a
//! batch of requests of each.

use std::collections::HashMap;
use std::path::PathBuf;

use thermocline_core::{Clients, Nanos};

use crate::compile::{Compiler, FOOTPRINT_PAGES_MAX};
use crate::compiled::CompiledTrace;
use crate::error::TraceError;
use crate::request::{PageSize, REQUEST_PAGES_MAX, Request, Requests};

/// Rule by which the requests of one trace are dealt to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// One after the other, in turn.
    RoundRobin,
    /// Volume by volume: the volumes in order of their first request, in turn.
    Volume,
}

/// Address space of clients: the same volume and offset mean the same page for all, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressSpace {
    /// The clients share a storage server.
    #[default]
    Shared,
    /// Each client has volumes of its own.
    Private,
}

impl CompiledTrace {
    /// Deal the requests to `clients` clients.
    ///
    /// # Errors
    /// If a split by volume finds fewer volumes than clients.
    pub fn split(mut self, clients: Clients, split: Split) -> Result<Self, TraceError> {
        let mut access_clients = Vec::with_capacity(self.len());
        let mut client_of_volume = HashMap::new();
        for (number, request) in self.requests().enumerate() {
            let turn = match split {
                Split::RoundRobin => number,
                Split::Volume => {
                    let (volume, _) = self.location(self.access(request.accesses.start).page);
                    let turn = client_of_volume.len();
                    *client_of_volume.entry(volume).or_insert(turn)
                }
            };
            access_clients.resize(request.accesses.end, dealt(turn, clients));
        }
        let volumes = client_of_volume.len();
        if split == Split::Volume && volumes < usize::from(clients.get()) {
            let path = self.path().display();
            let reason = format!(
                "`{path}` has requests to {volumes} volume(s): split it round-robin, or take at most so many clients"
            );
            return Err(TraceError::Clients { clients: clients.get(), reason });
        }
        // It may have been that of others before.
        if clients == Clients::ONE {
            access_clients.clear();
        }
        self.access_clients = access_clients.into();
        self.clients = clients;
        Ok(self)
    }

    /// Merges one trace per client by the times of their requests.
    ///
    /// Requests of the same time take turns, in the order of the clients; so traces without times
    /// are merged request by request. Each trace keeps its own order. Volumes of the same name are
    /// the same one, unless address spaces are private.
    ///
    /// # Errors
    /// As for [`compile`](Self::compile); or if there are too many traces, or some have times and
    /// others have none.
    ///
    /// # Panics
    /// Never: the number of clients is checked.
    pub fn compile_clients<R: Requests>(
        sources: &mut [R],
        page_size: PageSize,
        addresses: AddressSpace,
    ) -> Result<Self, TraceError> {
        let clients = Clients::new(sources.len()).ok_or_else(|| TraceError::Clients {
            clients: u8::try_from(sources.len()).unwrap_or(u8::MAX),
            reason: format!("there may be from 1 to {}", Clients::MAX),
        })?;
        let names: Vec<String> =
            sources.iter().map(|source| source.path().display().to_string()).collect();
        let path = PathBuf::from(names.join(" + "));
        let mut compiler = Compiler::new(&path, page_size, FOOTPRINT_PAGES_MAX);
        let mut volumes = MergedVolumes::default();
        let mut streams: Vec<Stream<'_, R>> = sources.iter_mut().map(Stream::new).collect();
        for stream in &mut streams {
            stream.fill()?;
        }
        while let Some(client) = earliest(&streams) {
            let stream = &mut streams[client];
            let client = u8::try_from(client).expect("there are few clients");
            let owner = (addresses == AddressSpace::Private).then_some(client);
            let request = stream.take(page_size, owner, &mut volumes)?;
            compiler.request(&request, client)?;
            stream.fill()?;
        }
        check_times(&streams, clients)?;
        compiler.finish(&volumes.names, clients)
    }
}

/// Return the client whose turn a number is.
fn dealt(turn: usize, clients: Clients) -> u8 {
    let client = turn % usize::from(clients.get());
    u8::try_from(client).expect("there are few clients")
}

/// The trace of one client, as far as it has been read.
struct Stream<'a, R> {
    source: &'a mut R,
    batch: Vec<Request>,
    next: usize,
    /// Requests taken.
    taken: u64,
    /// Time of the last request, and the number of requests at that time.
    last_at: Nanos,
    turns: u64,
    is_timed: bool,
    /// Per volume of the source: its number in the merged trace.
    volumes: Vec<u32>,
}

impl<'a, R: Requests> Stream<'a, R> {
    fn new(source: &'a mut R) -> Self {
        Self {
            source,
            batch: vec![],
            next: 0,
            taken: 0,
            last_at: Nanos(0),
            turns: 0,
            is_timed: false,
            volumes: vec![],
        }
    }

    /// Fetch the next request, if there is one.
    fn fill(&mut self) -> Result<(), TraceError> {
        if self.next == self.batch.len() {
            self.next = 0;
            self.source.read_batch(&mut self.batch)?;
        }
        Ok(())
    }

    /// Return the time of the next request, and the number of earlier ones of the same time.
    fn due(&self) -> Option<(Nanos, u64)> {
        let at = self.batch.get(self.next)?.at;
        Some((at, if at == self.last_at { self.turns } else { 0 }))
    }

    /// Return the next request, with its volume's number in the merged trace.
    fn take(
        &mut self,
        page_size: PageSize,
        owner: Option<u8>,
        merged: &mut MergedVolumes,
    ) -> Result<Request, TraceError> {
        let request = self.batch[self.next];
        self.next += 1;
        self.taken += 1;
        self.turns = if request.at == self.last_at { self.turns + 1 } else { 1 };
        self.last_at = request.at;
        self.is_timed |= request.at != Nanos(0);
        if page_size.pages(request.extent).1 > REQUEST_PAGES_MAX {
            return Err(TraceError::Request {
                path: self.source.path().to_owned(),
                request: self.taken,
                reason: format!("longer than 2^24 pages of {} B", page_size.bytes()),
            });
        }
        let volume = request.volume as usize;
        for known in self.volumes.len()..=volume {
            let name = self.source.volume_names().get(known).map_or("", String::as_str);
            self.volumes.push(merged.number(owner, name));
        }
        Ok(Request { volume: self.volumes[volume], ..request })
    }
}

/// Return the stream whose request comes next; of several at once, the one with the fewest of that
/// time, then the first.
fn earliest<R: Requests>(streams: &[Stream<'_, R>]) -> Option<usize> {
    let due = streams.iter().enumerate();
    due.filter_map(|(client, stream)| Some((stream.due()?, client))).min().map(|(_, client)| client)
}

/// Check that all traces have times or none has: others cannot be merged.
fn check_times<R: Requests>(streams: &[Stream<'_, R>], clients: Clients) -> Result<(), TraceError> {
    let path = |is_timed: bool| {
        let stream = streams.iter().find(|stream| stream.is_timed == is_timed)?;
        Some(stream.source.path().display().to_string())
    };
    let (Some(timed), Some(untimed)) = (path(true), path(false)) else { return Ok(()) };
    Err(TraceError::Clients {
        clients: clients.get(),
        reason: format!(
            "`{timed}` has times and `{untimed}` has none, so which request comes first is unknown: take traces that all have times, or none"
        ),
    })
}

/// The volumes of all traces.
#[derive(Default)]
struct MergedVolumes {
    names: Vec<String>,
    number_of: HashMap<String, u32>,
}

impl MergedVolumes {
    /// Return the number of a volume, which is that of one client alone if it has an owner.
    fn number(&mut self, owner: Option<u8>, name: &str) -> u32 {
        let name = match owner {
            Some(client) => format!("client {client}: {name}"),
            None => name.to_owned(),
        };
        let next = u32::try_from(self.names.len()).expect("names are limited by memory");
        *self.number_of.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }
}

#[cfg(test)]
mod tests;
